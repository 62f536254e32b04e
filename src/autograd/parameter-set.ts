import { untracked } from '../backend/tfjs-state';
import * as tf from '../core/tf';

/** A slot in an operation's saved tensors that belongs to a parameter. */
interface Hole {
  readonly saved: tf.Tensor[];
  readonly slot: number;
  readonly index: number;
  readonly shape: number[];
}

/**
 * A unit's parameters during one forward and backward. Tensors that operations save from them are released at once, so
 * that the unit can free its parameters after forward. Before backward, the slots are filled again from the current
 * parameters.
 */
export class ParameterSet {
  readonly #current: () => readonly tf.Tensor[];
  /** Parameter indices by tensor id and by buffer, as in forward. */
  readonly #byId = new Map<number, number>();
  readonly #byBuffer = new Map<object, number>();
  #holes: Hole[] = [];

  constructor(current: () => readonly tf.Tensor[]) {
    this.#current = current;
    current().forEach((tensor, index) => {
      if (!this.#byId.has(tensor.id)) this.#byId.set(tensor.id, index);
      if (!this.#byBuffer.has(tensor.dataId)) this.#byBuffer.set(tensor.dataId, index);
    });
  }

  /** The parameters' ids in forward. */
  get ids(): Iterable<number> {
    return this.#byId.keys();
  }

  /** The current tensor of the parameter that had this id in forward; undefined for other tensors. */
  now(id: number): tf.Tensor | undefined {
    const index = this.#byId.get(id);
    return index === undefined ? undefined : this.#current()[index];
  }

  /** Disposes a saved tensor if it has a parameter's buffer; `fill` puts it back. */
  leaveHole(saved: tf.Tensor[], slot: number, tensor: tf.Tensor): boolean {
    const index = this.#byBuffer.get(tensor.dataId);
    if (index === undefined) return false;
    this.#holes.push({ saved, slot, index, shape: tensor.shape });
    tensor.dispose();
    return true;
  }

  /** Puts views of the current parameters into the holes. */
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

  /** Gradients in the order of the parameters; null for a parameter without one. */
  pick(gradients: ReadonlyMap<number, tf.Tensor>): (tf.Tensor | null)[] {
    const picked: (tf.Tensor | null)[] = this.#current().map(() => null);
    for (const [id, index] of this.#byId) picked[index] = gradients.get(id) ?? null;
    return picked;
  }
}
