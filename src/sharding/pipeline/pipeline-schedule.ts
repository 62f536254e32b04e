import {
  countSchema,
  functionSchema,
  type PipelineScheduleName,
  parseOptions,
  type ShapeOf,
} from '../../config';
import { ConfigError, classOf, openThreadCpuClock, type ThreadCpuClock, tensorsIn } from '../../core';
import * as tf from '../../core/tf';
import { type StateBuffer, stateBuffers } from '../../nn';
import type { ProcessGroup } from '../../wire';
import type { HasStates, OtherParts } from '../optim/optimizer';
import { tagModules } from '../run-as-unit';
import { ForwardRun } from './forward-run';
import { requireDivisible, requireGiven } from './microbatches';
import type { LossFn, PipelineContext } from './pipeline-context';
import { PipelineStage } from './pipeline-stage';
import { type Action, actionsOf, forwardsOf } from './schedules';
import { requireNoSharedGradients } from './shared-gradients';
import { StepRun } from './step-run';

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
