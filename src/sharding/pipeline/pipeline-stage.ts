import { ConfigError, isIndex, isWhole } from '../../core';
import type * as tf from '../../core/tf';
import type { Module, Parameter } from '../../nn';
import type { ProcessGroup } from '../../wire';
import { DDP } from '../ddp/distributed-data-parallel';
import { noSync } from '../fsdp/units-of';
import { layersOf } from '../wrap-policy';

/**
 * A parameter that several stages read, such as a tied embedding. Each stage has a copy, and the copies' gradients are summed.
 */
export interface SharedParameter {
  readonly parameter: Parameter;
  /** The ranks with a copy. */
  readonly group: ProcessGroup;
}

/** Options of a stage. */
export interface PipelineStageOptions {
  /** The ranks of the pipeline, in order: `initializeModelParallel(…).pp`. */
  readonly group: ProcessGroup;
  /** The parameters of this stage that other stages read too. Default: none. */
  readonly shared?: readonly SharedParameter[] | undefined;
  /** Whether the last stage's module returns the loss if it gets targets. Default false. */
  readonly hasLoss?: boolean | undefined;
  /** Returns the shape of stages' outputs for a microbatch of this shape; only dry runs use it. */
  readonly outputShape?: ((input: readonly number[]) => readonly number[]) | undefined;
}

/** A stage of a pipeline on this rank. Source: torch.distributed.pipelining.PipelineStage. */
export class PipelineStage {
  /** The stage's part of the model. For DDP, replace the module by its wrapper: `stage.submod = DDP(stage.submod)`. */
  submod: Module;
  /**
   * A function that runs the work of `accumulate`; strategies and configs set it. If it is null, the `noSync` of `submod` runs
   * this work.
   */
  keepLocal: (<T>(work: () => T) => T) | null = null;
  /** Stage s of P ranks is on rank s % P. */
  readonly stageIndex: number;
  readonly numStages: number;
  readonly group: ProcessGroup;
  readonly shared: readonly SharedParameter[];
  readonly hasLoss: boolean;
  readonly outputShape: ((input: readonly number[]) => readonly number[]) | undefined;

  /** Throws: CONFIG if the stage is not one of this rank's stages. */
  constructor(submod: Module, stageIndex: number, numStages: number, options: PipelineStageOptions) {
    const { group, shared = [], hasLoss = false, outputShape } = options;
    checkIndex(stageIndex, numStages, group);
    this.submod = submod;
    this.stageIndex = stageIndex;
    this.numStages = numStages;
    this.group = group;
    this.shared = shared;
    this.hasLoss = hasLoss;
    this.outputShape = outputShape;
  }

  get isFirst(): boolean {
    return this.stageIndex === 0;
  }

  get isLast(): boolean {
    return this.stageIndex === this.numStages - 1;
  }

  /** The layers of the stage: `for (const layer of stage.layers) fullyShard(layer)`. */
  get layers(): readonly Module[] {
    return layersOf(this.submod);
  }

  /** Runs the stage's module on one input, and on targets if there are any. */
  forward(input: tf.Tensor, targets: tf.Tensor | undefined): tf.Tensor {
    const inputs = targets === undefined ? [input] : [input, targets];
    return this.submod.apply(...inputs) as tf.Tensor; // recordPart checks the type
  }

  /**
   * Runs work whose gradients are not reduced over data-parallel ranks; the gradients add up until a backward outside of
   * `work`.
   */
  accumulate<T>(work: () => T): T {
    if (this.keepLocal !== null) return this.keepLocal(work);
    return this.submod instanceof DDP ? this.submod.noSync(work) : noSync(this.submod, work);
  }
}

function checkIndex(stageIndex: number, numStages: number, group: ProcessGroup): void {
  if (!isWhole(numStages, 1) || numStages % group.size !== 0) {
    throw new ConfigError(
      `PipelineStage: ${numStages} stages cannot be divided over the ${group.size} ranks of ${group.name}; give a multiple of ` +
        `${group.size}`,
    );
  }
  if (isIndex(stageIndex, numStages) && stageIndex % group.size === group.rank) return;
  const own = Array.from(
    { length: numStages / group.size },
    (_, chunk) => chunk * group.size + group.rank,
  ).join(', ');
  throw new ConfigError(
    `PipelineStage: stage ${stageIndex} of ${numStages} is not on rank ${group.rank} of ${group.name}, which has stage ${own}; ` +
      'give one of these indices',
  );
}
