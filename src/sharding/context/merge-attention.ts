import * as tf from '../../core/tf';
import type { FlashAttention } from '../../engine';
import { sliced } from './sequence-order';

const [POSITIONS_OF_OUT, POSITIONS_OF_LSE] = [1, 2];

/**
 * Combines attention to two parts of the keys. Each part's result is weighted by the sum of the part's softmax weights; `lse`
 * is the logarithm of this sum. `late` has the queries from `firstQuery` on; the earlier queries attended only to the keys of
 * `sum`.
 * Source: Dao 2023, FlashAttention-2, section 2.3.1.
 */
export function mergeAttention(
  sum: FlashAttention,
  late: FlashAttention,
  firstQuery: number,
): FlashAttention {
  if (firstQuery === 0) return merge(sum, late);
  const [early, rest] = splitAt(sum, firstQuery);
  const merged = merge(rest, late);
  return {
    out: tf.concat([early.out, merged.out], POSITIONS_OF_OUT),
    lse: tf.concat([early.lse, merged.lse], POSITIONS_OF_LSE),
  };
}

/** Returns the queries before an index, and the queries from this index on. */
function splitAt({ out, lse }: FlashAttention, index: number): [FlashAttention, FlashAttention] {
  const length = out.shape[POSITIONS_OF_OUT] ?? 0;
  const part = (start: number, end: number): FlashAttention => ({
    out: sliced(out, POSITIONS_OF_OUT, start, end - start),
    lse: sliced(lse, POSITIONS_OF_LSE, start, end - start),
  });
  return [part(0, index), part(index, length)];
}

function merge(a: FlashAttention, b: FlashAttention): FlashAttention {
  const top = tf.maximum(a.lse, b.lse);
  const [ofA, ofB] = [tf.exp(tf.sub(a.lse, top)), tf.exp(tf.sub(b.lse, top))];
  const total = tf.add(ofA, ofB);
  const weighted = ({ out }: FlashAttention, weights: tf.Tensor): tf.Tensor =>
    tf.mul(out, perValue(tf.div(weights, total)));
  return { out: tf.add(weighted(a, ofA), weighted(b, ofB)), lse: tf.add(top, tf.log(total)) };
}

/** Shapes: [B, H, T] → [B, T, H, 1]. */
function perValue(x: tf.Tensor): tf.Tensor {
  return tf.expandDims(tf.transpose(x, [0, 2, 1]), 3);
}
