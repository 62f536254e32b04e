import { alias } from '../../core';
import * as tf from '../../core/tf';
import type { Engine } from '../backend/engine';
import { FUSED } from '../backend/fused/fused-kernel';
import { untracked } from '../backend/tfjs-state';
import { differentiate } from './differentiate';
import type { Gradients, RecordedNode, Recording } from './recording';

/** Chooses the gradients that backward does not compute now, and that are computed later. */
export interface Deferral {
  /**
   * Returns the names of an operation's inputs whose gradients are computed later. If there are such names, the deferral then
   * owns the operation's saved tensors.
   */
  take(tape: Recording, node: RecordedNode, dys: readonly (tf.Tensor | null)[]): ReadonlySet<string>;
}

/**
 * Operations that compute the gradient of each input separately, so gradients of parameters can wait at no cost. Nearly all
 * computation of a backward is in these operations.
 *
 * [Note: backward in two halves] In y = x Wᵀ, the gradients of x and of W are two matmuls. `PartPass.backwardInput` computes
 * the gradient of x, and stores x and the gradient of y; from these, `backwardWeight` computes the gradient of W. Other
 * operations, such as norms, compute the gradients of input and parameters in one kernel, which runs in `backwardInput`. The
 * backward of units (DDP, fullyShard) and checkpointed regions also runs as a whole in `backwardInput`. Nothing is computed
 * twice.
 * Source: Qi et al. 2023, "Zero Bubble Pipeline Parallelism".
 */
const SEPARATE: ReadonlySet<string> = new Set([FUSED.linear, FUSED.embedding, 'BatchMatMul']);

interface Later {
  readonly node: RecordedNode;
  readonly names: readonly string[];
  readonly dys: readonly (tf.Tensor | null)[];
}

const NONE: ReadonlySet<string> = new Set();

/**
 * Gradients of parameters that are computed later, with the tensors from which they are computed. `chooses` says whether the
 * gradient of an input waits.
 */
export class LaterGradients implements Deferral {
  readonly #chooses: (tape: Recording, node: RecordedNode, input: tf.Tensor) => boolean;
  #later: Later[] = [];

  constructor(chooses: (tape: Recording, node: RecordedNode, input: tf.Tensor) => boolean) {
    this.#chooses = chooses;
  }

  get isEmpty(): boolean {
    return this.#later.length === 0;
  }

  take(tape: Recording, node: RecordedNode, dys: readonly (tf.Tensor | null)[]): ReadonlySet<string> {
    if (!SEPARATE.has(node.kernelName) || dys.every((dy) => dy === null)) return NONE;
    const { inputs } = node;
    const names = Object.keys(inputs).filter(
      (name) => inputs[name] != null && this.#chooses(tape, node, inputs[name]),
    );
    if (names.length === 0) return NONE;
    const held = dys.map((dy) => dy && untracked(() => tf.keep(alias(dy))));
    this.#later.push({ node: { ...node }, names, dys: held });
    return new Set(names);
  }

  /** Whether the gradient of one of the operation's inputs waits. */
  includes({ inputs }: RecordedNode): boolean {
    const used = new Set<number | undefined>(Object.values(inputs).map((input) => input?.id));
    return this.#later.some(({ node, names }) => names.some((name) => used.has(node.inputs[name]?.id)));
  }

  /** Computes the gradients that wait, adds them to `gradients`, and frees the tensors from which they were computed. */
  compute(engine: Engine, gradients: Gradients): void {
    // If this loop is interrupted, `dispose` frees the tensors that are left.
    for (let next = this.#later.at(0); next !== undefined; next = this.#later.at(0)) {
      differentiate(engine, next.node, next.names, next.dys, gradients);
      this.#later.shift();
      free(next);
    }
  }

  dispose(): void {
    for (const later of this.#later.splice(0)) free(later);
  }
}

function free({ node, dys }: Later): void {
  for (const tensor of [...(node.saved ?? []), ...dys]) tensor?.dispose();
}
