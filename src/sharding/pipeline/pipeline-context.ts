import type { Observer } from '../../core';
import type * as tf from '../../core/tf';
import type { Engine, recordPart, TrainedParts } from '../../engine';

/** The objects that a schedule needs from its rank. */
export interface PipelineContext {
  readonly engine: Engine;
  readonly observer: Pick<Observer, 'span' | 'reached'>;
  /** Is called before each step's first action. */
  readonly begins?: (() => void) | undefined;
  /** Runs a stage's forward and records it for backward. The default is `recordPart`. */
  readonly record?: typeof recordPart | undefined;
  /** Is called with the parameters that a backward reached. */
  readonly trained?: ((parts: TrainedParts) => void) | undefined;
  /** Is called with the loss of a step, on the ranks of the last stage. */
  readonly report?: ((loss: number) => void) | undefined;
}

/**
 * Returns the scalar loss of a microbatch's output. `target` has the form of the step's target (a tensor, or lists and objects),
 * but only the rows of the microbatch.
 */
export type LossFn<Target = tf.Tensor> = (output: tf.Tensor, target: Target) => tf.Tensor;
