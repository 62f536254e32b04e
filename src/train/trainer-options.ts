import type { recordPart } from '../autograd/part-pass';
import type { Engine } from '../backend/engine';
import type { TrainConfig } from '../config/train-config';
import type { Observer } from '../core/events';
import type { Warn } from '../core/warn';
import type { BatchSource } from '../data/batch';
import type { PreparedData } from '../data/prepared';
import type { ProcessGroup } from '../dist/types';
import type { StateDict } from '../nn/load-state';
import type { parallelize } from '../parallel/parallelize';
import type { OwnParts } from './own-task';
import type { Task } from './task';

/** The parts that a trainer needs. */
export interface TrainerOptions {
  readonly config: TrainConfig;
  readonly engine: Engine;
  /** All ranks of the training. */
  readonly group: ProcessGroup;
  readonly observer: Observer;
  /** Initial parameters by name; default: values from the config's seed. */
  readonly initialState?: StateDict | undefined;
  /** Batches to train on; default: the config's data. */
  readonly batches?: BatchSource | undefined;
  /** The user's own data that the config names. */
  readonly data?: PreparedData | undefined;
  /** A model, loss or data of the user's own in place of the config's. */
  readonly own?: OwnParts | undefined;
  /** A task to train instead of the config's model on the config's data. */
  readonly task?: Task | undefined;
  /** Shards or replicates the model over the ranks; default: as the config's `parallel` says. */
  readonly parallelize?: typeof parallelize | undefined;
  /** Records the parts of a pipeline's microbatches; default `recordPart`. */
  readonly record?: typeof recordPart | undefined;
  /** Gets warnings about settings without effect, and about the first loss that is not finite. */
  readonly warn?: Warn | undefined;
}

/** The parts of a trainer; `group` has the ranks with other batches. */
export interface TrainerParts extends TrainerOptions {
  readonly allRanks: ProcessGroup;
  /** The ranks that hold the same parts of the model. */
  readonly shards: ProcessGroup;
  /** The ranks with the other stages of a pipeline; null: there are none. */
  readonly pipeline: ProcessGroup | null;
}
