import type { Engine } from '../backend/engine';
import { FUSED } from '../backend/fused/fused-kernel';
import { untracked } from '../backend/tfjs-state';
import * as tf from '../core/tf';
import type { Gradients, RecordedNode, Recording } from './recording';
import { oneTensor, scalar } from './results';
import { backward, type Deferral, differentiate } from './tape';
import { handOut, recordPass, type TrainedParts, trainedParts } from './unit';

/**
 * A finished forward of a part of a model, such as a stage of a pipeline. Its backward runs once: `backward`, or
 * `backwardInput` and later `backwardWeight`. Gradients of parameters are added up as after `gradients`.
 */
export interface PartPass {
  /** The part's output, or its loss; the caller owns the tensor. */
  readonly output: tf.Tensor;
  /**
   * Runs backward from the gradient of the output, and takes ownership of it. Returns the gradient of the input, which the
   * caller owns; null if there is none. Throws: CONFIG on a second call.
   */
  backward(seed: tf.Tensor): tf.Tensor | null;
  /** Does the same, but leaves the gradients of matrices for `backwardWeight`: [Note: backward in two halves]. */
  backwardInput(seed: tf.Tensor): tf.Tensor | null;
  backwardWeight(): void;
  /** Releases the tensors that forward saved, without backward. */
  dispose(): void;
}

/** What a part computes, and for which input it needs a gradient. */
export interface Part {
  /** The input that gets a gradient; null for the first part of a model. */
  readonly input: tf.Tensor | null;
  readonly forward: () => tf.Tensor;
  /** Whether the output is the loss, which must be a float32 scalar. */
  readonly isLoss: boolean;
  /** Called after each backward with the parameters that it reached. */
  readonly trained?: ((parts: TrainedParts) => void) | undefined;
  /** Parts with the same text do the same with what is `given` (tensors that forward reads); dry runs execute one of them. */
  readonly repeats?: { readonly text: string; readonly given: readonly tf.Tensor[] } | undefined;
}

/** Runs a part of a model and records it. Throws: SHAPE if the output is no tensor, or the loss is no float32 scalar. */
export function recordPart(engine: Engine, { input, forward, isLoss, trained }: Part): PartPass {
  const root = (): tf.Tensor => {
    const output = oneTensor(forward(), isLoss ? 'The loss' : 'The output of a stage');
    return isLoss ? scalar(output) : output;
  };
  const { tape, result: output, finish, drop } = recordPass(engine, input, root);
  const later = new LaterGradients();
  const run = (seed: tf.Tensor, deferral?: Deferral): tf.Tensor | null => {
    let gradient: tf.Tensor | null = null;
    finish(() => {
      if (!tape.flows(output)) {
        seed.dispose();
        return;
      }
      const found = backward(engine, tape, new Map([[output.id, seed]]), deferral);
      gradient = (input && found.get(input.id)) ?? null;
      if (input !== null) found.delete(input.id);
      handOut(engine, tape, found);
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
      handOut(engine, tape, later.compute(engine));
      trained?.(trainedParts(tape));
    },
    dispose() {
      drop();
      later.dispose();
    },
  };
}

/**
 * Operations whose gradients of parameters are computed one by one, so that they can wait at no cost; these have nearly all of
 * the work.
 *
 * [Note: backward in two halves] The gradients of x and of W in y = x Wᵀ are two matmuls. `backwardInput` runs the first one,
 * and stores x and the gradient of y, from which `backwardWeight` computes the other one. Other operations, such as norms,
 * compute the gradients of input and parameters in one kernel, which runs in `backwardInput`. So do units (DDP, fullyShard)
 * and checkpointed regions, whose backward runs as a whole. Nothing is computed twice.
 * Source: Qi et al. 2023, "Zero Bubble Pipeline Parallelism".
 */
const SEPARATE: ReadonlySet<string> = new Set([FUSED.linear, FUSED.embedding, 'BatchMatMul']);

interface Later {
  readonly node: RecordedNode;
  readonly names: readonly string[];
  readonly dys: readonly (tf.Tensor | null)[];
}

/** The gradients that `backwardInput` leaves for `backwardWeight`. */
class LaterGradients implements Deferral {
  #later: Later[] = [];

  take(tape: Recording, node: RecordedNode, dys: readonly (tf.Tensor | null)[]): ReadonlySet<string> {
    if (!SEPARATE.has(node.kernelName) || dys.every((dy) => dy === null)) return new Set();
    const { inputs } = node;
    const names = Object.keys(inputs).filter(
      (name) => inputs[name] != null && tape.loose.has(inputs[name].id),
    );
    if (names.length === 0) return new Set();
    const held = dys.map((dy) => dy && untracked(() => tf.keep(tf.clone(dy))));
    this.#later.push({ node: { ...node }, names, dys: held });
    return new Set(names);
  }

  /** Computes the gradients, and frees what they need. */
  compute(engine: Engine): Gradients {
    const gradients: Gradients = new Map();
    for (let next = this.#later.shift(); next !== undefined; next = this.#later.shift()) {
      const { node, names, dys } = next;
      try {
        differentiate(engine, node, names, dys, gradients);
      } finally {
        free(next);
      }
    }
    return gradients;
  }

  dispose(): void {
    for (const later of this.#later.splice(0)) free(later);
  }
}

function free({ node, dys }: Later): void {
  for (const tensor of [...(node.saved ?? []), ...dys]) tensor?.dispose();
}
