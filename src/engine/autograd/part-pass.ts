import type * as tf from '../../core/tf';
import type { Engine } from '../backend/engine';
import { type Deferral, LaterGradients } from './later-gradients';
import { type Gradients, requireUnchanged } from './recording';
import { oneTensor, scalar } from './results';
import { backward } from './tape';
import { handOut, recordPass, type TrainedParts, trainedParts } from './unit';

/**
 * A finished forward of a part of a model, such as a stage of a pipeline. The part's backward runs once: `backward`, or
 * `backwardInput` and later `backwardWeight`. Parameters get their gradients as in a pass of `gradients`.
 */
export interface PartPass {
  /** The part's output, or its loss; the caller owns the tensor. */
  readonly output: tf.Tensor;
  /**
   * Runs backward from `seed`, the gradient of the output, and takes ownership of `seed`. Returns the gradient of the input,
   * which the caller owns; null if the input has no gradient. Throws: CONFIG on a second call.
   */
  backward(seed: tf.Tensor): tf.Tensor | null;
  /** Does the same as `backward`, but leaves the gradients of matrices for `backwardWeight`: [Note: backward in two halves]. */
  backwardInput(seed: tf.Tensor): tf.Tensor | null;
  backwardWeight(): void;
  /** Releases the tensors that forward saved, without backward. */
  dispose(): void;
}

/** The computation of a part, and the input for which it needs a gradient. */
export interface RecordedPart {
  /** The input that gets a gradient; null for the first part of a model. */
  readonly input: tf.Tensor | null;
  readonly forward: () => tf.Tensor;
  /** Whether the output is the loss, which must be a float32 scalar. */
  readonly isLoss: boolean;
  /** Is called after each backward with the parameters that the backward reached. */
  readonly trained?: ((parts: TrainedParts) => void) | undefined;
  readonly repeats?: PartRepeats | undefined;
}

/** The parameters that one part gathers and leaves gathered for the next part. */
export interface GatherState {
  /** Describes which parameters are gathered, and the state that decides which parameters are gathered next. */
  describe(): string;
  /** The gathered tensors. */
  tensors(): readonly tf.Tensor[];
  /**
   * Returns a function that sets this state again, with the given tensors in place of `tensors()`. Null if the state cannot be
   * set again, because collectives are in flight.
   */
  save(): ((tensors: readonly tf.Tensor[]) => void) | null;
}

/**
 * Parts that have the same `text` do the same work on their `inputs`, which forward reads. A dry run may execute
 * only one of these parts.
 */
export interface PartRepeats {
  readonly text: string;
  readonly inputs: readonly tf.Tensor[];
  /** The gather state of the part; null if the part's parameters are always whole. */
  readonly gathers: GatherState | null;
  /**
   * Whether the part is the first part that adds its gradients to an earlier part's gradients. For this part, the earlier
   * gradients may have another form than for later parts.
   */
  readonly isFirstToAdd: boolean;
}

/** Runs a part of a model and records it. Throws: SHAPE if the output is no tensor, or the loss is no float32 scalar. */
export function recordPart(engine: Engine, { input, forward, isLoss, trained }: RecordedPart): PartPass {
  const root = (): tf.Tensor => {
    const output = oneTensor(forward(), isLoss ? 'The loss' : 'The output of a stage');
    return isLoss ? scalar(output) : output;
  };
  const { tape, result: output, finish, drop } = recordPass(engine, input, root);
  const later = new LaterGradients((recording, _node, input) => recording.loose.has(input.id));
  const run = (seed: tf.Tensor, deferral?: Deferral): tf.Tensor | null => {
    let gradient: tf.Tensor | null = null;
    finish(() => {
      if (!tape.flows(output)) {
        seed.dispose();
        return;
      }
      requireUnchanged(tape);
      const gradients = backward(engine, tape, new Map([[output.id, seed]]), deferral);
      gradient = (input && gradients.get(input.id)) ?? null;
      if (input !== null) gradients.delete(input.id);
      handOut(engine, tape, gradients);
    });
    return gradient;
  };
  return {
    output,
    backward(seed) {
      const gradient = run(seed);
      trained?.(trainedParts(tape));
      return gradient;
    },
    backwardInput(seed) {
      const forget = engine.onRecover(() => later.dispose());
      try {
        return run(seed, later);
      } catch (error) {
        later.dispose();
        throw error;
      } finally {
        forget();
      }
    },
    backwardWeight() {
      const gradients: Gradients = new Map();
      later.compute(engine, gradients);
      handOut(engine, tape, gradients);
      trained?.(trainedParts(tape));
    },
    dispose() {
      drop();
      later.dispose();
    },
  };
}
