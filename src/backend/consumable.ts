import type * as tf from '../core/tf';

const CONSUMABLE = Symbol('its holder has no more use for the values');

interface Marked {
  [CONSUMABLE]?: true;
}

/**
 * Says that the operation about to run is the tensor's last use, so that a kernel may write its result over the values
 * if no other tensor is a view of them.
 */
export function markConsumable(tensor: tf.Tensor): void {
  (tensor as Marked)[CONSUMABLE] = true;
}

/** True for a tensor whose holder gave its values away. */
export function isConsumable(info: tf.TensorInfo): boolean {
  return (info as Marked)[CONSUMABLE] === true;
}
