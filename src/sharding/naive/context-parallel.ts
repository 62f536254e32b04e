import { ShardlabError, withGradients } from '../../core';
import * as tf from '../../core/tf';
import { tidy } from '../../engine';
import { type Attend, attention, type GPT } from '../../nn';
import type { ProcessGroup } from '../../wire';
import { exchangeOptions } from '../exchange-options';

/**
 * Divides the sequences of a GPT over the ranks in the simplest way: rank r of P has the r-th of P equal parts of the positions.
 * All layers except attention compute each position alone, so only attention communicates: it gathers the keys and values of
 * all positions. All ranks get the same whole batch. The model returns the mean loss over the rank's own positions, so the
 * gradients must be averaged over the ranks (`naiveDDP`). Returns the same model, which is called as before.
 *
 * The real forms (context/) exchange heads (Ulysses), or pass keys and values round a ring, so that no rank stores all of them.
 * In the ring's zigzag order, all ranks compute equally much; here, the last rank's positions attend to the most keys.
 * Source: Llama team 2024, "The Llama 3 Herd of Models", section 3.3.2 (keys and values by all-gather).
 * Throws: SHAPE in forward, if the ranks do not divide the sequence.
 */
export function naiveContextParallel(model: GPT, group: ProcessGroup): GPT {
  // 1. The model cuts the batch: ids [B, T] → [B, T / P], targets [B·T] → [B·T / P].
  model.wrap(([ids, targets], next) =>
    tidy(() => {
      const own = ownPositions(ids as tf.Tensor, group);
      if (targets === undefined) return next(own);
      const table = tf.reshape(targets as tf.Tensor, (ids as tf.Tensor).shape);
      return next(own, tf.reshape(ownPositions(table, group), [-1]));
    }),
  );

  // 2. The position embedding begins at the rank's first position.
  model.positionsOf = (length) => [{ start: group.rank * length, length }];

  // 3. Attention gathers keys and values.
  for (const { attention: layer } of model.blocks) layer.attend = attendToAll(group, layer.path);
  return model;
}

function ownPositions(x: tf.Tensor, group: ProcessGroup): tf.Tensor {
  const [rows = 0, length = 0] = x.shape;
  if (length % group.size !== 0) {
    throw new ShardlabError(
      'SHAPE',
      `naive context parallelism: ${group.size} ranks do not divide ${length} positions; give sequences of a multiple of ${group.size} positions`,
    );
  }
  const own = length / group.size;
  return tf.slice(x, [0, group.rank * own], [rows, own]);
}

/** Returns a function that computes the causal attention of this rank's queries to the keys of all ranks. */
function attendToAll(group: ProcessGroup, module: string): Attend {
  return (q, k, v, options) => {
    const [batch = 0, own = 0] = q.shape;
    // With as many keys as the last query may see, query i sees the keys up to index i + S - T: the causal mask of `attention`.
    const seen = (x: tf.Tensor): tf.Tensor =>
      tf.slice(gathered(x, group, module), [0, 0, 0, 0], [batch, (group.rank + 1) * own, -1, -1]);
    return attention(q, seen(k), seen(v), options);
  };
}

/**
 * Gathers keys or values of all positions. Every rank's queries give a part of their gradient: backward sums the parts, and
 * returns the sum for this rank's positions. Shapes: x [B, T / P, H, D] → [B, T, H, D].
 */
function gathered(x: tf.Tensor, group: ProcessGroup, module: string): tf.Tensor {
  // Collectives divide and join axis 0, so the ranks' parts are moved between axis 0 and the sequence.
  const moved = (tensor: tf.Tensor, from: 0 | 1, to: 0 | 1): tf.Tensor =>
    tf.concat(tf.split(tensor, group.size, from), to);
  const options = exchangeOptions(module);
  return withGradients([x], () => ({
    value: moved(group.allGather(x, options).wait(), 0, 1),
    gradients: (dy) => [group.reduceScatter(moved(dy, 1, 0), 'sum', options).wait()],
  }));
}
