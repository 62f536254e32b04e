import type { DType, Tag } from '../../core';
import * as tf from '../../core/tf';
import type { Engine } from '../backend/engine';
import type { HostArray } from '../backend/host-arrays';
import { untracked } from '../backend/tfjs-state';

interface Stashed {
  readonly array: HostArray;
  readonly tag: Tag;
  readonly dtype: DType;
  readonly places: { readonly tensors: tf.Tensor[]; readonly slot: number; readonly shape: number[] }[];
}

/**
 * Stores saved activations on the host between forward and backward, one array per buffer. The buffer on the device is
 * freed if no other tensor uses it.
 */
export class HostStash {
  readonly #engine: Engine;
  readonly #stashed: Stashed[] = [];
  /** The buffer on the device to which an array is being copied; it is freed if the copy is interrupted. */
  #arriving: tf.Tensor | null = null;

  constructor(engine: Engine) {
    this.#engine = engine;
  }

  /** Moves the activations of these lists to the host; tensors with other causes are not moved. */
  put(lists: readonly tf.Tensor[][]): void {
    const byBuffer = new Map<object, Stashed>();
    for (const tensors of lists) {
      tensors.forEach((tensor, slot) => {
        const tag = this.#engine.tagOf(tensor);
        if (tensor.isDisposed || tag.cause !== 'activation') return;
        let stashed = byBuffer.get(tensor.dataId);
        if (stashed === undefined) {
          stashed = this.#copyOut(tensor, tag);
          byBuffer.set(tensor.dataId, stashed);
          this.#stashed.push(stashed);
        }
        stashed.places.push({ tensors, slot, shape: tensor.shape });
        tensor.dispose();
      });
    }
  }

  /** Copies all activations back to the device, into new buffers, and puts them into the lists. */
  fetch(): void {
    for (let stashed = this.#stashed.at(-1); stashed !== undefined; stashed = this.#stashed.at(-1)) {
      this.#copyIn(stashed);
      this.#stashed.pop();
      stashed.array.dispose();
    }
  }

  dispose(): void {
    this.#arriving?.dispose();
    for (const { array } of this.#stashed.splice(0)) array.dispose();
  }

  #copyOut(tensor: tf.Tensor, tag: Tag): Stashed {
    // The engine has no other dtypes.
    const dtype = tensor.dtype as DType;
    const array = this.#engine.host.allocate(tensor.size, tag, dtype);
    this.#engine.host.fromDevice(tensor, 0, tensor.size, array, 0);
    return { array, tag, dtype, places: [] };
  }

  #copyIn({ array, tag, dtype, places }: Stashed): void {
    untracked(() => {
      const whole = this.#engine.allocate([array.length], dtype, tag);
      this.#arriving = whole;
      this.#engine.host.toDevice(array, 0, array.length, whole, 0);
      for (const { tensors, slot, shape } of places) tensors[slot] = tf.keep(tf.reshape(whole, shape));
      whole.dispose();
    });
  }
}
