import { ConfigError, classOf, ShardlabError, tensorsIn } from '../../core';
import * as tf from '../../core/tf';

/** Throws: CONFIG if `root` is not a function, for example a loss that was computed before the recording. */
export function requireFunction(root: unknown): void {
  if (typeof root === 'function') return;
  throw new ConfigError(
    `gradients takes a function, which it runs and records, not ${classOf(root)}; write gradients(() => model.apply(…))`,
  );
}

/** Returns the value if it is a single tensor. Throws: SHAPE for no value, a promise, or several tensors. */
export function oneTensor(value: unknown, source: string): tf.Tensor {
  if (value instanceof tf.Tensor) return value;
  throw new ShardlabError(
    'SHAPE',
    `${source} is ${mistake(value)} Return one tensor that tf operations made.`,
  );
}

/**
 * Returns the value if it has tensors: a tensor, or arrays and plain objects of tensors. Throws: SHAPE for no value, a
 * promise, and a value without tensors.
 */
export function requireTensors<T>(value: T, source: string): T {
  if (tensorsIn(value).length > 0) return value;
  throw new ShardlabError(
    'SHAPE',
    `${source} is ${mistake(value)} Return a tensor that tf operations made, or an array or a plain object of such tensors.`,
  );
}

function mistake(value: unknown): string {
  if (value === undefined) return 'undefined: is a return missing?';
  if (value instanceof Promise) return 'a promise: a recorded function cannot be async.';
  return `${classOf(value)}, through which no gradient flows.`;
}

/** Returns the loss. Throws: SHAPE unless it is a float32 scalar. */
export function scalar(loss: tf.Tensor): tf.Tensor {
  if (loss.size === 1 && loss.dtype === 'float32') return loss;
  throw new ShardlabError(
    'SHAPE',
    `The loss is ${loss.dtype} [${loss.shape}]; gradients need a float32 scalar, such as a mean.`,
  );
}

/** Source: torch's 'element 0 of tensors does not require grad and does not have a grad_fn'. */
export function dependsOnNothing(): ShardlabError {
  return new ShardlabError(
    'CONFIG',
    'the loss depends on no trainable parameter: either forward used none, or all parameters that it used are frozen, or the code read a value with dataSync and made a new tensor from it; compute the loss from model.apply(…) inside gradients(() => loss)',
  );
}

/** Source: torch's 'Trying to backward through the graph a second time'. */
export function ranBefore(): ShardlabError {
  return new ShardlabError(
    'CONFIG',
    'backward or dispose has already run for this forward and has released its tensors; run gradients(() => loss) again, or add losses up and run one backward',
  );
}
