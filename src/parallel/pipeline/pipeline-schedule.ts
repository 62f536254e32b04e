import { requireKnownOptions } from '../../config/option-names';
import { ConfigError } from '../../core/errors';
import * as tf from '../../core/tf';
import { openThreadCpuClock, type ThreadCpuClock } from '../../core/thread-cpu';
import type { ProcessGroup } from '../../dist/types';
import { type StateBuffer, stateBuffers } from '../../nn/parameter';
import type { HasStates, OtherParts } from '../../optim/optimizer';
import { tagModules } from '../run-as-unit';
import { requireDivisible, requireGiven } from './microbatches';
import type { LossFn, PipelineContext } from './pipeline-context';
import type { PipelineStage } from './pipeline-stage';
import { type Action, actionsOf, type PipelineScheduleName } from './schedules';
import { requireNoSharedGradients } from './shared-gradients';
import { StepRun } from './step-run';

/** Options of a schedule. */
export interface ScheduleOptions {
  /** The number of microbatches into which a step's batch is divided. */
  readonly numMicrobatches: number;
  /** Default: the model's own loss, which `nn.gpt` and `nn.llama` have. */
  readonly lossFn?: LossFn | undefined;
}

/** What a step gets besides its input. */
export interface StepOptions {
  /** The targets, which only the last stage reads. */
  readonly target?: tf.Tensor | undefined;
  /** Gets the loss of every microbatch on the last stage; the caller disposes them. */
  readonly losses?: tf.Tensor[] | undefined;
}

/**
 * Runs a step of a pipeline: divides the batch into microbatches and runs this rank's stages on them in the schedule's order,
 * while activations and their gradients travel between ranks. Source: torch.distributed.pipelining.
 */
export class PipelineSchedule implements HasStates {
  readonly name: PipelineScheduleName;
  readonly stages: readonly PipelineStage[];
  readonly numMicrobatches: number;
  readonly #context: PipelineContext;
  readonly #lossFn: LossFn | undefined;
  readonly #actions: readonly (readonly Action[])[];
  readonly #cpu: ThreadCpuClock | undefined = openThreadCpuClock();

  /** Throws: CONFIG if stages are not this rank's stages of one pipeline, for sizes that the schedule cannot have, and for unknown options. */
  constructor(
    name: PipelineScheduleName,
    stages: PipelineStage | readonly PipelineStage[],
    options: ScheduleOptions,
    context: PipelineContext,
  ) {
    requireKnownOptions('a schedule (stages, { … })', options, ['numMicrobatches', 'lossFn']);
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
      'the pipeline needs a loss: give { lossFn: (output, target) => … }, because the last stage only returns its output',
    );
  }

  /** This rank's actions in a step, in order. */
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
   * Runs forward and backward of all microbatches; every rank of the pipeline must call it. Gradients are those of the mean loss
   * over microbatches, and data-parallel ranks reduce them once. All ranks may give the same arguments: only the first stage
   * reads `x`, and only the last stage reads `target`. Returns the mean loss on the last stage; null elsewhere.
   * Throws: CONFIG without x or target where they are needed; SHAPE if microbatches would not be equal; COLLECTIVE_MISMATCH and
   * COLLECTIVE_MISSING, which say who waits for which microbatch of which stage.
   */
  step(x?: tf.Tensor, { target, losses }: StepOptions = {}): number | null {
    const { engine } = this.#context;
    this.#check(x, target);
    this.#context.begins?.();
    for (const { submod } of this.stages) tagModules(engine, submod);
    const run = new StepRun(this.#context, {
      stages: this.stages,
      numMicrobatches: this.numMicrobatches,
      schedule: `${this.name} of ${this.numMicrobatches} microbatches`,
      x,
      target,
      lossFn: this.#lossFn,
      actions: this.#actions,
      cpu: this.#cpu,
    });
    const { tensors, mean } = run.finish();
    if (losses === undefined) tf.dispose([...tensors]);
    else losses.push(...tensors);
    if (mean !== null) this.#context.report?.(mean);
    return mean;
  }

  get #group(): ProcessGroup {
    return requireOwnStages(this.stages).group;
  }

  #check(x: tf.Tensor | undefined, target: tf.Tensor | undefined): void {
    for (const { isFirst, isLast, shared } of this.stages) {
      if (isFirst) requireDivisible(requireGiven(x, 'its input x', 'first'), this.numMicrobatches, 'x');
      if (isLast)
        requireDivisible(requireGiven(target, 'the target', 'last'), this.numMicrobatches, 'target');
      requireNoSharedGradients(shared);
    }
  }
}

/** Returns the first stage. Throws: CONFIG unless the stages are all stages of one rank, in order. */
function requireOwnStages(stages: readonly PipelineStage[]): PipelineStage {
  const [first] = stages;
  if (first === undefined) throw new ConfigError('a schedule needs at least one stage');
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
