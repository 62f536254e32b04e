import { mean, type PipelineWork, type ThreadCpuClock, tensorsIn } from '../../core';
import * as tf from '../../core/tf';
import { type GatherState, type PartPass, type PartRepeats, recordPart, untracked } from '../../engine';
import { gatherStateOf } from '../fsdp/units-of';
import type { Mail } from './mail';
import type { PipelineContext } from './pipeline-context';
import type { PipelineStage } from './pipeline-stage';
import { forwardOf, mailOf, ownActions, type RunInputs, takeInputs } from './run-inputs';
import type { Action, ActionKind } from './schedules';
import { sumSharedGradients } from './shared-gradients';

/** The inputs of a step. */
export interface StepInputs extends RunInputs {
  readonly cpu: ThreadCpuClock | undefined;
  /** The factor by which gradients are multiplied. */
  readonly scale: number;
  /** Whether the optimizer's step is next. If so, the gradients of parameters that stages share are summed over stages. */
  readonly isLast: boolean;
}

/** The losses of a step's microbatches on the last stage. */
export interface StepLosses {
  readonly tensors: readonly tf.Tensor[];
  readonly mean: number | null;
}

/** One step of a schedule on this rank. */
export class StepRun {
  readonly #context: PipelineContext;
  readonly #inputs: StepInputs;
  readonly #mail: Mail;
  /** Forwards whose backward has not ended, by chunk and microbatch. */
  readonly #passes = new Map<string, PartPass>();
  readonly #losses: tf.Tensor[] = [];
  /** By stage: the gather state, by which forwards are compared; null if the stage's parameters are never freed. */
  readonly #gathers = new Map<PipelineStage, GatherState | null>();

  constructor(context: PipelineContext, inputs: StepInputs) {
    this.#context = context;
    this.#inputs = inputs;
    this.#mail = mailOf(context.engine, inputs);
  }

  /** Runs all actions. */
  finish(): StepLosses {
    const { engine } = this.#context;
    const forget = engine.onRecover(() => this.#abandon());
    try {
      const { stages, isLast } = this.#inputs;
      const actions = ownActions(this.#inputs);
      actions.forEach((action, index) => {
        const stage = stages[action.chunk] as PipelineStage; // an action's chunk is an index of `stages`
        const isSynced = isLastOfKind(actions, index);
        this.#mail.nextAction();
        this.#run(stage, action, isSynced);
      });
      this.#mail.finish();
      if (isLast)
        sumSharedGradients(
          engine,
          stages.flatMap(({ shared }) => shared),
        );
    } catch (error) {
      const cause = this.#mail.causeOf(error);
      this.#abandon();
      throw cause;
    } finally {
      forget();
    }
    const values = engine.hasValues ? this.#losses.map((loss) => loss.dataSync()[0] ?? Number.NaN) : [];
    return { tensors: this.#losses, mean: values.length === 0 ? null : mean(values) };
  }

  #run(stage: PipelineStage, action: Action, isSynced: boolean): void {
    const { kind } = action;
    const work = kind === 'forward' ? this.#forward(stage, action) : this.#backward(stage, action);
    if (isSynced) work();
    else stage.accumulate(work);
  }

  /** Receives the input of a forward; the returned function computes the forward. */
  #forward(stage: PipelineStage, action: Action): () => void {
    const { engine, trained, record } = this.#context;
    const { stageIndex, isFirst, isLast } = stage;
    const { microbatch } = action;
    const { input, target } = takeInputs(engine, this.#inputs, this.#mail, stage, microbatch);
    return () => {
      try {
        const forward = (): tf.Tensor => forwardOf(this.#inputs, stage, input, target);
        // `repeats` is made only if there is a `record`, which may read it: to make `repeats` takes longer than to run a small
        // part.
        const repeats = record && this.#repeatsOf(stage, action, [input, ...tensorsIn(target)]);
        const part = { input: isFirst ? null : input, forward, isLoss: isLast, trained, repeats };
        const pass = this.#timed(stage, action, () => (record ?? recordPart)(engine, part));
        this.#passes.set(keyOf(action), pass);
        const { output } = pass;
        if (isLast) {
          this.#losses.push(untracked(() => tf.keep(output)));
          return;
        }
        this.#mail.send({ content: 'output', stage: stageIndex, microbatch }, output);
        output.dispose();
      } finally {
        tf.dispose([input, ...tensorsIn(target)]);
      }
    };
  }

  /**
   * Returns the `repeats` of a forward; forwards that do equal work have equal texts. Returns undefined for the first
   * microbatch, which makes gradients, and for the last microbatch, which reduces gradients.
   */
  #repeatsOf(stage: PipelineStage, action: Action, inputs: readonly tf.Tensor[]): PartRepeats | undefined {
    const { microbatch } = action;
    if (microbatch < 1 || microbatch === this.#inputs.numMicrobatches - 1) return undefined;
    const known = this.#gathers.get(stage);
    const gathers = known === undefined ? gatherStateOf(stage.submod) : known;
    this.#gathers.set(stage, gathers);
    const text = circumstances(this.#inputs, action, gathers !== null);
    return { text, inputs, gathers, isFirstToAdd: microbatch === 1 };
  }

  /** Receives the gradient of the output; the returned function computes backward or one half of backward. */
  #backward(stage: PipelineStage, action: Action): () => void {
    const { stageIndex, isFirst, isLast } = stage;
    const { scale, numMicrobatches } = this.#inputs;
    const { kind, microbatch } = action;
    const pass = this.#passes.get(keyOf(action)) as PartPass; // the action's forward is earlier in the schedule
    if (kind !== 'backwardInput') this.#passes.delete(keyOf(action));
    if (kind === 'backwardWeight') return () => this.#timed(stage, action, () => pass.backwardWeight());
    const seed = isLast
      ? untracked(() => tf.fill(pass.output.shape, scale / numMicrobatches))
      : this.#mail.take({ content: 'gradient', stage: stageIndex, microbatch });
    return () => {
      const half = kind === 'backward' ? 'backward' : 'backwardInput';
      const passGradient = this.#timed(stage, action, () => pass[half](seed));
      if (isFirst) return;
      const gradient = passGradient ?? untracked(() => tf.zeros(this.#mail.shapeOf(stageIndex - 1)));
      this.#mail.send({ content: 'gradient', stage: stageIndex - 1, microbatch }, gradient);
      gradient.dispose();
    };
  }

  /** Runs an action's computation and reports its span. */
  #timed<T>({ stageIndex }: PipelineStage, { kind, microbatch }: Action, work: () => T): T {
    const { engine, observer } = this.#context;
    const { cpu } = this.#inputs;
    const [start, startCpu] = [engine.clock.now(), cpu?.()];
    const result = work();
    const name = kind === 'forward' ? 'forward' : 'backward';
    const half = HALVES[kind];
    const spent = cpu === undefined || startCpu === undefined ? undefined : cpu() - startCpu;
    const pipeline = { half, stage: stageIndex, microbatch, cpu: spent };
    observer.span({ kind: 'span', name, module: '', start, end: engine.clock.now(), pipeline });
    return result;
  }

  #abandon(): void {
    for (const pass of this.#passes.values()) pass.dispose();
    this.#passes.clear();
    this.#mail.abandon();
    tf.dispose(this.#losses.splice(0));
  }
}

/** The half of backward that an action computes. */
const HALVES: Partial<Record<ActionKind, PipelineWork['half']>> = {
  backwardInput: 'input',
  backwardWeight: 'weight',
};

/** Whether no later action has the same kind and chunk. Data-parallel ranks reduce gradients only in the last backward. */
function isLastOfKind(actions: readonly Action[], index: number): boolean {
  const own = actions[index];
  return !actions.some(
    ({ kind, chunk }, otherIndex) => otherIndex > index && kind === own?.kind && chunk === own.chunk,
  );
}

/**
 * Describes the state before each action of a microbatch: the gradients that exist, and, if parameters are gathered, the kind
 * of the chunk's previous action. This kind decides which parameters are gathered already. Microbatches with equal texts do
 * equal work.
 */
function circumstances(inputs: StepInputs, { chunk, microbatch }: Action, gathers: boolean): string {
  const last = inputs.numMicrobatches - 1;
  const actions = ownActions(inputs);
  return actions
    .flatMap((own, index) => {
      if (own.chunk !== chunk || own.microbatch !== microbatch) return [];
      const earlier = actions.slice(0, index);
      const reduced = earlier.filter(
        (action) => action.microbatch === last && action.kind !== 'forward',
      ).length;
      const makers = earlier.filter(({ kind }) => kind === 'backward' || kind === 'backwardWeight');
      const made = own.kind === 'forward' ? [] : [...new Set(makers.map((action) => action.chunk))].sort();
      const previous = gathers ? earlier.filter((action) => action.chunk === chunk).at(-1)?.kind : '';
      return [`${chunk} ${own.kind} after ${reduced} reductions, gradients of ${made}, ${previous}`];
    })
    .join(', ');
}

function keyOf({ chunk, microbatch }: Action): string {
  return `${chunk} ${microbatch}`;
}
