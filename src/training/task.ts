import type { DitConfig, TrainConfig } from '../config';
import type * as tf from '../core/tf';
import type { Engine } from '../engine';
import type { Module } from '../nn';
import type { UncountedBatches, ValidationBatches } from './data/batch';
import type { PreparedVideos } from './data/prepared';
import type { FrozenTextEncoder } from './text-encoder';

/** The tensors of one microbatch; the caller disposes them. */
export interface TensorBatch {
  readonly tensors: readonly tf.Tensor[];
  /** Number of tokens or patches; number of rows if `countedRows` is true. Speeds are computed from it. */
  readonly count: number;
  /** Whether `count` is the number of rows, because the batch has no tokens. Default false. */
  readonly countedRows?: boolean;
  /** The batch's loss is the result of `lossOf`, times this factor. Default 1. */
  readonly factor?: number | undefined;
}

/**
 * The mean rewards of a batch of pairs: a reward is beta times the difference of the model's and the reference model's log-probability
 * of an answer. Source: TRL's rewards/chosen, rewards/rejected, rewards/margins and rewards/accuracies.
 */
export interface Rewards {
  /** Chosen minus rejected. */
  readonly margin: number;
  /** The share of pairs whose chosen answer has the larger reward. */
  readonly accuracy: number;
  readonly chosen: number;
  readonly rejected: number;
}

/** Returns rewards as a list, in the order that `rewardsIn` reads. */
export function listOfRewards({ margin, accuracy, chosen, rejected }: Rewards): number[] {
  return [margin, accuracy, chosen, rejected];
}

/** Returns the rewards in a list of `listOfRewards`. */
export function rewardsIn([margin = 0, accuracy = 0, chosen = 0, rejected = 0]: readonly number[]): Rewards {
  return { margin, accuracy, chosen, rejected };
}

/** Returns `sum` with `weight` times `rewards` added to it. */
export function sumOfRewards(sum: Rewards | undefined, rewards: Rewards, weight: number): Rewards {
  const before = sum === undefined ? [] : listOfRewards(sum);
  return rewardsIn(listOfRewards(rewards).map((value, i) => (before[i] ?? 0) + value * weight));
}

/** A training task: a model, its data and its loss. */
export interface Task<B extends TensorBatch = TensorBatch> {
  readonly model: Module;
  /** Makes a microbatch of a rank; `index` counts from 0 over the whole run; `first` is the first index of the same step. */
  batch(rank: number, index: number, first?: number): B;
  /** The batches that are never trained on; null or undefined if there are none. */
  readonly validation?: ValidationBatches<B> | UncountedBatches<B> | null | undefined;
  /**
   * Returns the mean loss of the batch, a float32 scalar. It must call the model's forward, which records its operations.
   * `seen` gets the model's output and the batch. Throws: CONFIG if `seen` is given and the model returns only its loss.
   */
  lossOf(batch: B, seen?: OutputSeen): tf.Tensor;
  /** Called before each forward of a batch, and not recorded; for what the loss needs besides the model's output. */
  prepare?(batch: B): void;
  /** Returns what the last call of `lossOf` measured besides the loss; omitted if the task measures nothing else. */
  measured?(): Rewards;
  /** A text that identifies the values of a frozen model which the loss needs and no checkpoint has; omitted if there is none. */
  readonly reference?: string | undefined;
  /** Frees what an interrupted forward outside of the model left. */
  abandon?(): void;
  /** Called when the passes of a batch have ended. */
  end?(): void;
  /** How the stages of a pipeline use a batch. Omitted if the model cannot be cut into stages. */
  readonly stages?: StagedTask<B> | undefined;
  /** The parts that sampling of videos needs; undefined if the task cannot draw videos. */
  readonly videos?: VideoParts | undefined;
  /** Frees the task's tensors, except for the model. */
  dispose?(): void;
}

/** How the first and the last stage of a pipeline use a batch. */
export interface StagedTask<B extends TensorBatch = TensorBatch> {
  /** Returns the first stage's input `x` and the loss's `target`. The rows of the tensors in both are cut into microbatches. */
  inputsOf(batch: B): { readonly x: tf.Tensor; readonly target: unknown };
  /** Returns the mean loss of the last stage's output; omitted if the last stage itself computes the loss. */
  readonly lossOf?: ((output: tf.Tensor, target: unknown) => tf.Tensor) | undefined;
}

/** A function that gets the model's output, and the batch in the form in which a user's function gets it. */
export type OutputSeen = (output: unknown, batch: unknown) => void;

/** The parts of a task on videos with captions that sampling of videos needs. */
export interface VideoParts {
  readonly engine: Engine;
  readonly model: Module;
  readonly config: TrainConfig;
  readonly shape: DitConfig;
  /** The encoder of captions; null if words are fixed vectors. */
  readonly encoder: FrozenTextEncoder | null;
  /** The user's own videos; undefined for moving shapes. */
  readonly own: PreparedVideos | undefined;
}
