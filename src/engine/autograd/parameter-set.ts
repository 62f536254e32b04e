import * as tf from '../../core/tf';
import { untracked } from '../backend/tfjs-state';
import type { Leaf } from './leaves';

/** A slot in an operation's saved tensors. The slot's tensor, which was a view of a parameter, is disposed. */
interface Hole {
  readonly saved: tf.Tensor[];
  readonly slot: number;
  readonly index: number;
  readonly shape: number[];
}

/**
 * A unit's parameters during one forward and backward. When an operation saves a parameter, the saved tensor is disposed
 * at once, so that the unit can free its parameters after forward. Before backward, these slots are filled with views of
 * the current parameters.
 */
export class ParameterSet {
  readonly #current: () => readonly tf.Tensor[];
  /** The parameters' indices, by the id and by the buffer of their tensors in forward. */
  readonly #byId = new Map<number, number>();
  readonly #byBuffer = new Map<object, number>();
  readonly #leaves: readonly Leaf[];
  #holes: Hole[] = [];

  /** `leaves`: the parameters themselves, in the order of `current`. */
  constructor(current: () => readonly tf.Tensor[], leaves: readonly Leaf[] = []) {
    this.#current = current;
    this.#leaves = leaves;
    current().forEach((tensor, index) => {
      if (!this.#byId.has(tensor.id)) this.#byId.set(tensor.id, index);
      if (!this.#byBuffer.has(tensor.dataId)) this.#byBuffer.set(tensor.dataId, index);
    });
  }

  /** The ids of the parameters' tensors in forward. */
  get ids(): Iterable<number> {
    return this.#byId.keys();
  }

  /** Returns the current tensor of the parameter whose tensor had the id `id` in forward; undefined for ids of other tensors. */
  now(id: number): tf.Tensor | undefined {
    const index = this.#byId.get(id);
    return index === undefined ? undefined : this.#current()[index];
  }

  /**
   * Disposes a saved tensor if it has a parameter's buffer, and returns whether it has one. Later, `fill` puts a view in its
   * slot. `read` is called with the parameter.
   */
  leaveHole(saved: tf.Tensor[], slot: number, tensor: tf.Tensor, read: (leaf: Leaf) => void): boolean {
    const index = this.#byBuffer.get(tensor.dataId);
    if (index === undefined) return false;
    this.#holes.push({ saved, slot, index, shape: tensor.shape });
    tensor.dispose();
    const leaf = this.#leaves[index];
    if (leaf !== undefined) read(leaf);
    return true;
  }

  /** Puts views of the current parameters into the empty slots. */
  fill(): void {
    const holes = this.#holes;
    this.#holes = [];
    const tensors = this.#current();
    untracked(() => {
      for (const { saved, slot, index, shape } of holes) {
        const tensor = tensors[index];
        if (tensor !== undefined) saved[slot] = tf.keep(tf.reshape(tensor, shape));
      }
    });
  }

  /** Returns the gradients in the order of the parameters; null for a parameter without a gradient. */
  pick(gradients: ReadonlyMap<number, tf.Tensor>): (tf.Tensor | null)[] {
    const picked: (tf.Tensor | null)[] = this.#current().map(() => null);
    for (const [id, index] of this.#byId) picked[index] = gradients.get(id) ?? null;
    return picked;
  }
}
