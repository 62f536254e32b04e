import { ShardlabError } from '../core/errors';
import * as tf from '../core/tf';

/** Throws: SHAPE unless the values are a batch of tokens and its targets. `model` is the model's name, as 'GPT'. */
export function requireTokens(model: string, ids: unknown, targets: unknown): void {
  if (ids instanceof tf.Tensor && ids.rank === 2 && targets instanceof tf.Tensor && targets.size === ids.size)
    return;
  throw new ShardlabError(
    'SHAPE',
    `${model} takes ids [B, T] and targets [B·T], both int32 tensors, and gives the mean loss; it was given ids ` +
      `${described(ids)} and targets ${described(targets)}.`,
  );
}

function described(value: unknown): string {
  return value instanceof tf.Tensor ? `${value.dtype} [${value.shape}]` : typeof value;
}
