import type * as tf from '../core/tf';

const CONSUMABLE = Symbol('its holder has no more use for the values');

interface Marked {
  [CONSUMABLE]?: true;
}

/**
 * Marks the next operation as the tensor's last use, so that a kernel may overwrite the values with its result if no
 * other tensor is a view of them.
 */
export function markConsumable(tensor: tf.Tensor): void {
  (tensor as Marked)[CONSUMABLE] = true;
}

/** True for a tensor whose values may be overwritten. */
export function isConsumable(info: tf.TensorInfo): boolean {
  return (info as Marked)[CONSUMABLE] === true;
}
