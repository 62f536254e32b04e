import type { TrainedParts } from '../../autograd/unit';
import type { Engine } from '../../backend/engine';
import type { Observer } from '../../core/events';
import type * as tf from '../../core/tf';

/** The objects that a schedule needs from its rank. */
export interface PipelineContext {
  readonly engine: Engine;
  readonly observer: Observer;
  /** Called before each step's first action. */
  readonly begins?: (() => void) | undefined;
  /** Called with the parameters that a backward reached. */
  readonly trained?: ((parts: TrainedParts) => void) | undefined;
  /** Gets the loss of a step, on the ranks of the last stage. */
  readonly report?: ((loss: number) => void) | undefined;
}

/** A scalar loss of a microbatch's output and targets. */
export type LossFn = (output: tf.Tensor, target: tf.Tensor) => tf.Tensor;
