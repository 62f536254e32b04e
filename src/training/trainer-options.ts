import type { TrainConfig } from '../config';
import type { Observer, Warn } from '../core';
import type { Engine, recordPart } from '../engine';
import type { StateDict } from '../nn';
import type { parallelize } from '../sharding';
import type { ProcessGroup } from '../wire';
import type { BatchSource } from './data/batch';
import type { PreparedData } from './data/prepared';
import type { OwnParts } from './own-task';
import type { Task } from './task';

/** The options of `createTrainer`. */
export interface TrainerOptions {
  readonly config: TrainConfig;
  readonly engine: Engine;
  /** All ranks of the training. */
  readonly group: ProcessGroup;
  readonly observer: Observer;
  /** Initial parameters by name; default: values from the config's seed. */
  readonly initialState?: StateDict | undefined;
  /** Batches that replace the config's data. */
  readonly batches?: BatchSource | undefined;
  /** The user's own data, which the config names, in prepared form. */
  readonly data?: PreparedData | undefined;
  /** A model, loss or data of the user's own in place of the config's. */
  readonly own?: OwnParts | undefined;
  /** A task to train instead of the config's model on the config's data. */
  readonly task?: Task | undefined;
  /** Shards or replicates the model over the ranks; default: `parallelize`, which follows the config's `parallel`. */
  readonly parallelize?: typeof parallelize | undefined;
  /** Records the parts of a pipeline's microbatches; default `recordPart`. */
  readonly record?: typeof recordPart | undefined;
  /** Gets warnings about settings without effect, parameters without gradients, and the first loss that is not finite. */
  readonly warn?: Warn | undefined;
}

/** The parts of a trainer; `group` is the data-parallel group, whose ranks train on different batches. */
export interface TrainerParts extends TrainerOptions {
  readonly allRanks: ProcessGroup;
  /** The ranks that hold the same parts of the model. */
  readonly shards: ProcessGroup;
  /** The ranks that hold the stages of a pipeline; null without a pipeline. */
  readonly pipeline: ProcessGroup | null;
}
