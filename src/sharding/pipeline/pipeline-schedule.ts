import {
  countSchema,
  functionSchema,
  type PipelineScheduleName,
  parseOptions,
  type ShapeOf,
} from '../../config';
import {
  ConfigError,
  classOf,
  mean,
  openThreadCpuClock,
  type PipelineWork,
  type ThreadCpuClock,
  tensorsIn,
} from '../../core';
import * as tf from '../../core/tf';
import { type GatherState, type PartPass, type PartRepeats, recordPart, untracked } from '../../engine';
import { type StateBuffer, stateBuffers } from '../../nn';
import type { ProcessGroup } from '../../wire';
import { gatherStateOf } from '../fsdp/units-of';
import type { HasStates, OtherParts } from '../optim/optimizer';
import { tagModules } from '../run-as-unit';
import type { Mail } from './mail';
import { requireDivisible, requireGiven } from './microbatches';
import type { LossFn, PipelineContext } from './pipeline-context';
import { PipelineStage } from './pipeline-stage';
import { forwardOf, mailOf, ownActions, type RunInputs, takeInputs } from './run-inputs';
import { type Action, type ActionKind, actionsOf, forwardsOf } from './schedules';
import { requireNoSharedGradients, sumSharedGradients } from './shared-gradients';

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
class StepRun {
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
    const name = kind === 'forward' ? 'forward' : 'backward';
    const half = HALVES[kind];
    observer.reached?.({ name, module: '', pipeline: { half, stage: stageIndex, microbatch } });
    const [start, startCpu] = [engine.clock.now(), cpu?.()];
    const result = work();
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

/** The forwards of a pipeline on this rank, without gradients. */
class ForwardRun {
  readonly #context: PipelineContext;
  readonly #inputs: RunInputs;
  readonly #mail: Mail;
  #result: tf.Tensor | null = null;

  constructor(context: PipelineContext, inputs: RunInputs) {
    this.#context = context;
    this.#inputs = inputs;
    this.#mail = mailOf(context.engine, inputs);
  }

  /** Runs all forwards, and returns the result of the last stage, which the caller disposes; null on other ranks. */
  finish(): tf.Tensor | null {
    const abandon = (): void => {
      this.#mail.abandon();
      this.#result?.dispose();
    };
    const forget = this.#context.engine.onRecover(abandon);
    try {
      for (const action of ownActions(this.#inputs)) this.#forward(action);
      this.#mail.finish();
      return this.#result;
    } catch (error) {
      const cause = this.#mail.causeOf(error);
      abandon();
      throw cause;
    } finally {
      forget();
    }
  }

  #forward({ chunk, microbatch }: Action): void {
    const stage = this.#inputs.stages[chunk] as PipelineStage; // an action's chunk is an index of `stages`
    const { input, target } = takeInputs(this.#context.engine, this.#inputs, this.#mail, stage, microbatch);
    try {
      const output = untracked(() => tf.keep(tf.tidy(() => forwardOf(this.#inputs, stage, input, target))));
      if (stage.isLast) this.#result = output;
      else {
        this.#mail.send({ content: 'output', stage: stage.stageIndex, microbatch }, output);
        output.dispose();
      }
    } finally {
      tf.dispose([input, ...tensorsIn(target)]);
    }
  }
}

/** Options of a schedule. */
export interface ScheduleOptions<Target = tf.Tensor> {
  /** The number of microbatches into which a step's batch is divided. */
  readonly numMicrobatches: number;
  /** Computes the loss from the last stage's output. Default: the model's own loss, which `nn.gpt` and `nn.llama` have. */
  readonly lossFn?: LossFn<Target> | undefined;
}

const OPTIONS = {
  numMicrobatches: countSchema.nonoptional(),
  lossFn: functionSchema<LossFn<never>>().describe(
    'a function (output, target) => …, which returns a scalar',
  ),
} satisfies ShapeOf<ScheduleOptions<never>>;

/** Options of a step. */
export interface StepOptions<Target = tf.Tensor> {
  /**
   * The targets, which only the last stage reads: a tensor, or lists and objects of tensors. Each tensor is divided into
   * microbatches.
   */
  readonly target?: Target | undefined;
  /** A list that gets the losses of all microbatches on the last stage; the caller disposes the losses. */
  readonly losses?: tf.Tensor[] | undefined;
  /** A factor by which gradients are multiplied, such as the scale of a GradScaler. Default 1. */
  readonly scale?: number | undefined;
  /**
   * Whether the optimizer's step is next. If false, another call of `step` adds to the gradients before the optimizer's step.
   * Default true.
   */
  readonly isLast?: boolean | undefined;
}

/**
 * Runs a step of a pipeline. Divides the batch into microbatches, and runs this rank's stages on them in the schedule's order.
 * Activations and their gradients travel between ranks. Source: torch.distributed.pipelining.
 */
export class PipelineSchedule<Target = tf.Tensor> implements HasStates {
  readonly name: PipelineScheduleName;
  readonly stages: readonly PipelineStage[];
  readonly numMicrobatches: number;
  readonly #context: PipelineContext;
  readonly #lossFn: LossFn<Target> | undefined;
  readonly #actions: readonly (readonly Action[])[];
  readonly #cpu: ThreadCpuClock | undefined = openThreadCpuClock();
  /** Whether the gradients of shared parameters are already summed over the stages. */
  #areSummed = false;

  /**
   * Throws: CONFIG if a stage of this rank is missing, if stages belong to several pipelines, if sizes do not fit, or if an
   * option is unknown.
   */
  constructor(
    name: PipelineScheduleName,
    stages: PipelineStage | readonly PipelineStage[],
    options: ScheduleOptions<Target>,
    context: PipelineContext,
  ) {
    parseOptions('a schedule (stages, { … })', options, OPTIONS);
    const { numMicrobatches, lossFn } = options;
    this.name = name;
    this.stages = [stages].flat();
    this.numMicrobatches = numMicrobatches;
    this.#context = context;
    this.#lossFn = lossFn;
    const { group } = requireOwnStages(this.stages);
    const sizes = { numRanks: group.size, numMicrobatches, virtualStages: this.stages.length };
    this.#actions = group.ranks.map((_, rank) => actionsOf(name, sizes, rank));
    const last = this.stages.find(({ isLast }) => isLast);
    if (last === undefined || last.hasLoss || lossFn !== undefined) return;
    throw new ConfigError(
      'the last stage of the pipeline returns its output and no loss; give the schedule a loss: { lossFn: (output, target) => … }',
    );
  }

  /** The actions of this rank in a step, in order. */
  get actions(): readonly Action[] {
    return this.#actions[this.#group.rank] ?? [];
  }

  /** The state buffers of all stages of this rank, for optimizers. */
  states(): StateBuffer[] {
    return stateBuffers(this.stages.flatMap(({ submod }) => submod.parameters()));
  }

  /** The ranks with the other stages, so that clipping measures the norm of the whole model. */
  get otherParts(): OtherParts {
    const copies = this.stages.flatMap(({ shared }) => shared);
    const elsewhere = copies.filter(({ group }) => group.rank > 0).map(({ parameter }) => parameter);
    return { group: this.#group, countedElsewhere: elsewhere };
  }

  /**
   * Runs forward and backward of all microbatches; every rank of the pipeline must call it. Gradients are the gradients of the
   * mean loss over microbatches, and data-parallel ranks reduce them once. All ranks may give the same arguments: only the
   * first stage reads `x`, and only the last stage reads `target`. Returns the mean loss on the last stage; null elsewhere, and
   * in dry runs.
   * Throws: CONFIG if a stage needs x or target and did not get it; SHAPE if microbatches would not be equal;
   * COLLECTIVE_MISMATCH and COLLECTIVE_MISSING, which say who waits for which microbatch of which stage.
   */
  step(x?: tf.Tensor, { target, losses, scale = 1, isLast = true }: StepOptions<Target> = {}): number | null {
    this.#check(x, target);
    this.#context.begins?.();
    const { numMicrobatches, name } = this;
    const inputs = { x, target, lossFn: this.#lossFn, numMicrobatches, actions: this.#actions };
    const schedule = `${name} of ${numMicrobatches} microbatches`;
    const run = new StepRun(this.#context, {
      ...inputs,
      schedule,
      stages: this.#tagged,
      cpu: this.#context.engine.hasValues ? this.#cpu : undefined,
      scale,
      isLast,
    });
    const { tensors, mean } = run.finish();
    this.#areSummed = isLast;
    if (losses === undefined) tf.dispose([...tensors]);
    else losses.push(...tensors);
    if (mean !== null) this.#context.report?.(mean);
    return mean;
  }

  /**
   * Runs the stages' forward on the whole batch, without gradients; every rank of the pipeline must call it. The batch is not
   * divided: if it were, data-parallel ranks with unequal numbers of rows would gather parameters in different orders. Returns
   * the last stage's output, or its loss if there is a target; the caller disposes it. Returns null on other stages. Throws the
   * same errors as `step`.
   */
  evaluate(x: tf.Tensor, { target }: Pick<StepOptions<Target>, 'target'> = {}): tf.Tensor | null {
    const actions = this.#group.ranks.map(() => forwardsOf(this.stages.length));
    const inputs = { x, target, lossFn: this.#lossFn, numMicrobatches: 1, actions, schedule: 'evaluation' };
    return new ForwardRun(this.#context, { ...inputs, stages: this.#tagged }).finish();
  }

  get #tagged(): readonly PipelineStage[] {
    for (const { submod } of this.stages) tagModules(this.#context.engine, submod);
    return this.stages;
  }

  get #group(): ProcessGroup {
    return requireOwnStages(this.stages).group;
  }

  #check(x: tf.Tensor | undefined, target: unknown): void {
    if (x !== undefined && !(x instanceof tf.Tensor))
      throw new ConfigError(
        `schedule.step got ${classOf(x)} as its input; write schedule.step(x, { target }) with a tensor x`,
      );
    for (const { isFirst, isLast, shared } of this.stages) {
      if (isFirst) requireDivisible(requireGiven(x, 'its input x', 'first'), this.numMicrobatches, 'x');
      if (isLast) {
        const targets = tensorsIn(requireGiven(target, 'the target', 'last'));
        for (const tensor of targets) requireDivisible(tensor, this.numMicrobatches, 'target');
      }
      if (this.#areSummed) requireNoSharedGradients(shared);
    }
  }
}

/** Returns the first stage. Throws: CONFIG unless the stages are all stages of one rank, in order. */
function requireOwnStages(stages: readonly PipelineStage[]): PipelineStage {
  const [first] = stages;
  if (first === undefined)
    throw new ConfigError('a schedule got no stages; give it the stages that pipelineStages returns');
  const nonStage = stages.find((stage) => !(stage instanceof PipelineStage));
  if (nonStage !== undefined)
    throw new ConfigError(
      `a schedule got ${classOf(nonStage)}; give it the stages that pipelineStages returns`,
    );
  const { group, numStages } = first;
  const fits = stages.every(
    ({ stageIndex, group: own }, chunk) => own === group && stageIndex === chunk * group.size + group.rank,
  );
  if (fits && stages.length * group.size === numStages) return first;
  throw new ConfigError(
    `a schedule on rank ${group.rank} of ${group.name} got stages ${stages.map(({ stageIndex }) => stageIndex).join(', ')} of ${numStages}; ` +
      'give all stages of the rank in order, as pipelineStages returns them',
  );
}
