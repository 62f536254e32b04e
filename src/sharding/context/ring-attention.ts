import { oneOf, requireKind, requireKnownOptions } from '../../config';
import { ShardlabError, withGradients } from '../../core';
import * as tf from '../../core/tf';
import { currentEngine, type FlashAttention, flashAttention, flashAttentionGrad, tidy } from '../../engine';
import { attention } from '../../nn';
import type { CollectiveOptions, ProcessGroup } from '../../wire';
import { exchangeOptions } from '../exchange-options';
import { DIVIDED_ATTENTION_OPTIONS, type DividedAttentionOptions } from './attention-options';
import { SEQUENCE_ORDERS, type SequenceOrder, type Share, sliced } from './sequence-order';

// B sequences, T positions of all P ranks together, H heads of queries, G of keys and values, D values per head.

/** Options of `ringAttention`. */
export interface RingOptions extends DividedAttentionOptions {
  /** The order in which the ranks have the positions. Default 'zigzag', in which all ranks compute equally much. */
  readonly order?: SequenceOrder | undefined;
}

const ORDER = oneOf(...SEQUENCE_ORDERS);

/**
 * Returns attention over a sequence that is divided over the P ranks of a group.
 *
 * [Note: ring attention] The parts of k and v travel round the ring; while a rank computes with one part, it receives the
 * next. Each step computes the attention to one part of the keys, and the log-sum-exp of the scores; with these log-sum-exps, the
 * steps' results are combined exactly. Backward sends k and v round again. The gradients of each part travel one step behind
 * the part, so that every rank adds its share to these gradients; in the last step, the gradients return to the rank that has
 * the part. With b sequences of s positions and h values of k per position, a rank receives 2bsh (P - 1) / P elements in
 * forward and twice as many in backward.
 *
 * Shapes: q [B, T / P, H, D], k and v [B, T / P, G, D] → [B, T / P, H, D]; H / G consecutive heads of q share one head of k
 * and v. Source: Liu et al. 2023, "Ring Attention with Blockwise Transformers".
 * Throws: SHAPE if the shapes do not fit together, or if zigzag order cannot halve the rank's part; CONFIG for unknown options.
 */
export function ringAttention(q: tf.Tensor, k: tf.Tensor, v: tf.Tensor, options: RingOptions): tf.Tensor {
  requireKnownOptions('ringAttention(q, k, v, { … })', options, [...DIVIDED_ATTENTION_OPTIONS, 'order']);
  const { group, causal, order = 'zigzag', scale = 1 / Math.sqrt(q.shape[3] ?? 1), module } = options;
  requireKind('ringAttention', 'order', order, ORDER);
  if (group.size === 1) return attention(q, k, v, { causal, scale, kind: 'flash' });
  requireParts(q, k, v, causal && order === 'zigzag');
  const length = q.shape[1] ?? 0;
  const ring: Ring = {
    group,
    scale,
    exchange: exchangeOptions(module),
    block: (from) => ringBlock(group, from, length, { order, isCausal: causal }),
  };
  return withGradients([q, k, v], (save) => {
    const { out, lse } = ringForward(ring, q, k, v);
    save([q, k, v, out, lse]);
    return { value: out, gradients: (dOut, saved) => ringBackward(ring, saved, dOut) };
  });
}

/** Throws: SHAPE unless the shapes fit together and, in zigzag order, the rank's part can be halved. */
function requireParts(q: tf.Tensor, k: tf.Tensor, v: tf.Tensor, hasHalves: boolean): void {
  const [batch = 0, length = 0, heads = 0, headDim = 0] = q.shape;
  const groups = k.shape[2] ?? 0;
  const fits =
    q.rank === 4 &&
    k.shape.join() === [batch, length, groups, headDim].join() &&
    v.shape.join() === k.shape.join() &&
    heads % groups === 0;
  if (!fits) {
    throw new ShardlabError(
      'SHAPE',
      `ringAttention: q [${q.shape}], k [${k.shape}], v [${v.shape}] do not fit together; give q [B, T / ranks, heads, d] and ` +
        'k, v [B, T / ranks, kvHeads, d] of the same positions, where kvHeads divides heads',
    );
  }
  if (!hasHalves || length % 2 === 0) return;
  throw new ShardlabError(
    'SHAPE',
    `ringAttention in zigzag order: a rank's part has an early and a late half, but the part's ${length} positions cannot be ` +
      "halved; use a sequence length that is a multiple of 2 x the number of ranks, or order: 'contiguous'",
    { details: { length } },
  );
}

// [Note: ring attention] in ring-attention.ts describes both passes.

/** The inputs of both passes that are not tensors. */
export interface Ring {
  readonly group: ProcessGroup;
  readonly scale: number;
  readonly exchange: CollectiveOptions & { readonly module: string };
  /** Returns what this rank computes with the keys of rank `from`; null if it computes nothing with them. */
  block(from: number): RingBlock | null;
}

/** Keys and values of one rank. */
type Part = readonly [k: tf.Tensor, v: tf.Tensor];

/** Returns attention to the keys of all ranks. */
function ringForward(ring: Ring, q: tf.Tensor, k: tf.Tensor, v: tf.Tensor): FlashAttention {
  let sum: FlashAttention | null = null;
  for (const { part, block } of partsOf(ring, [k, v])) {
    if (block === null) continue;
    const before: FlashAttention | null = sum;
    sum = tidy(() => {
      const { firstQuery, isCausal } = block;
      const [keys, values] = keysOf(part, block);
      const options = { causal: isCausal, scale: ring.scale };
      const blockAttention = flashAttention(from(q, firstQuery), keys, values, options);
      return before === null ? blockAttention : mergeAttention(before, blockAttention, firstQuery);
    });
    if (before !== null) tf.dispose([before.out, before.lse]);
  }
  return ofOwnPart(sum);
}

/** Returns the gradients of q, k and v. `saved`: q, k, v, and the attention to the keys of all ranks. */
function ringBackward(ring: Ring, saved: readonly tf.Tensor[], dOut: tf.Tensor): tf.Tensor[] {
  const [q, k, v, out, lse] = saved as [tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor]; // forward saved five tensors
  let dq: tf.Tensor | null = null;
  /** The gradients of the rank's own part, from its own queries. */
  let own: Part | null = null;
  let travelling: Travelling | null = null;
  for (const { part, block } of partsOf(ring, [k, v])) {
    const shares = block === null ? null : gradientsOf(ring, [q, out, lse, dOut], part, block);
    if (shares !== null) dq = dq === null ? shares.dq : sumOf(dq, shares.dq);
    const gradients: Part = shares?.part ?? [tf.zerosLike(k), tf.zerosLike(v)];
    if (own === null) own = gradients;
    else travelling = sentOn(ring, added(travelling, gradients));
  }
  const [dk, dv] = added(travelling, ofOwnPart(own));
  return [ofOwnPart(dq), dk, dv];
}

/** Returns a result, which exists because every rank attends to the keys of its own part. */
function ofOwnPart<T>(result: T | null): T {
  if (result !== null) return result;
  throw new ShardlabError('INTERNAL', 'a rank of a ring attended to no keys');
}

/** The gradients of one part on their way round the ring, and the tensors that this rank sends. */
interface Travelling {
  readonly sent: Part;
  readonly passing: Passing;
}

/** Sends sums of gradients with 32 bits, because every rank would round a sum of 16 bits again. */
function sentOn({ group, exchange }: Ring, sent: Part): Travelling {
  return { sent, passing: passOn(sent, group, { ...exchange, wireDType: 'float32' }) };
}

/**
 * Returns the gradients that arrive plus this rank's share, and disposes both; returns the share itself if no gradients
 * arrive.
 */
function added(travelling: Travelling | null, share: Part): Part {
  if (travelling === null) return share;
  const [dk, dv] = travelling.passing.arrived() as [tf.Tensor, tf.Tensor]; // each rank sends two tensors
  const sums: Part = [sumOf(dk, share[0]), sumOf(dv, share[1])];
  tf.dispose([...travelling.sent]);
  return sums;
}

/** Returns a + b and disposes both. */
function sumOf(a: tf.Tensor, b: tf.Tensor): tf.Tensor {
  const sum = tf.add(a, b);
  tf.dispose([a, b]);
  return sum;
}

/** A rank's keys and values, and what this rank computes with them. */
interface Visit {
  readonly part: Part;
  readonly block: RingBlock | null;
}

/**
 * Yields the parts of all ranks, this rank's first. While the caller uses a part, the part is also sent to the next rank. A
 * received part is disposed after its use.
 */
function* partsOf(ring: Ring, own: Part): Generator<Visit, void> {
  const { group, exchange } = ring;
  const { rank, size } = group;
  let part = own;
  for (let step = 0; step < size; step++) {
    const passing = step + 1 < size ? passOn(part, group, exchange) : null;
    yield { part, block: ring.block((rank - step + size) % size) };
    const next = passing?.arrived();
    if (step > 0) tf.dispose([...part]);
    if (next !== undefined) part = next as [tf.Tensor, tf.Tensor]; // each rank sends two tensors
  }
}

/** Returns the gradients of q (with zeros for queries outside of the block), and of all keys and values of a part. */
function gradientsOf(
  { scale }: Ring,
  [q, out, lse, dOut]: readonly [q: tf.Tensor, out: tf.Tensor, lse: tf.Tensor, dOut: tf.Tensor],
  part: Part,
  block: RingBlock,
): { readonly dq: tf.Tensor; readonly part: Part } {
  const { firstQuery, numKeys, isCausal } = block;
  return tidy(() => {
    const [keys, values] = keysOf(part, block);
    const result = {
      out: from(out, firstQuery),
      lse: from(lse, firstQuery, 2),
      dOut: from(dOut, firstQuery),
    };
    const attrs = { causal: isCausal, scale };
    const { dq, dk, dv } = flashAttentionGrad(from(q, firstQuery), keys, values, result, attrs);
    const rest = (part[0].shape[1] ?? 0) - numKeys;
    return { dq: padded(dq, firstQuery, 0), part: [padded(dk, 0, rest), padded(dv, 0, rest)] as const };
  });
}

function keysOf([k, v]: Part, { numKeys }: RingBlock): Part {
  return numKeys === k.shape[1] ? [k, v] : [sliced(k, 1, 0, numKeys), sliced(v, 1, 0, numKeys)];
}

/** Returns the positions from an index on. */
function from(x: tf.Tensor, index: number, dim = 1): tf.Tensor {
  return index === 0 ? x : sliced(x, dim, index, (x.shape[dim] ?? 0) - index);
}

/** Adds zeros before and after the positions. */
function padded(x: tf.Tensor, before: number, after: number): tf.Tensor {
  if (before + after === 0) return x;
  return tf.pad(x, [
    [0, 0],
    [before, after],
    [0, 0],
    [0, 0],
  ]);
}

/**
 * Tensors that are on their way round the ring. `arrived` waits for the previous rank's tensors and returns them; the caller
 * disposes the tensors.
 */
interface Passing {
  arrived(): tf.Tensor[];
}

/** Starts to send tensors to the next rank of a ring, and to receive the previous rank's tensors of the same shapes. */
function passOn(
  tensors: readonly tf.Tensor[],
  group: ProcessGroup,
  options: CollectiveOptions & { readonly module: string },
): Passing {
  const engine = currentEngine();
  if (engine === null) throw new ShardlabError('INTERNAL', 'a ring of several ranks has no engine');
  const { rank, size } = group;
  const [next, previous] = [(rank + 1) % size, (rank + size - 1) % size];
  const inBackground = { ...options, async: true };
  const received = tensors.map(({ shape }) =>
    engine.allocate(shape, 'float32', { cause: 'comm', module: options.module }),
  );
  const works = tensors.flatMap((tensor, i) => {
    const into = received[i];
    const recv = into === undefined ? [] : [group.recv(into, previous, inBackground)];
    return [group.send(tensor, next, inBackground), ...recv];
  });
  return {
    arrived() {
      for (const work of works) work.wait();
      return received;
    },
  };
}

const [POSITIONS_OF_OUT, POSITIONS_OF_LSE] = [1, 2];

/**
 * Combines attention to two parts of the keys. Each part's result is weighted by the sum of the part's softmax weights; `lse`
 * is the logarithm of this sum. `late` has the queries from `firstQuery` on; the earlier queries attended only to the keys of
 * `sum`.
 * Source: Dao 2023, FlashAttention-2, section 2.3.1.
 */
function mergeAttention(sum: FlashAttention, late: FlashAttention, firstQuery: number): FlashAttention {
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

/** What a rank computes with another rank's keys: the rank's queries from `firstQuery` on attend to the first `numKeys` keys. */
export interface RingBlock {
  readonly firstQuery: number;
  readonly numKeys: number;
  /** Whether query i attends only to keys 0 to i. */
  readonly isCausal: boolean;
}

/**
 * Returns what a rank computes with the keys of rank `from` (`length` positions each); null if this rank's queries attend to
 * none of these keys. Under the causal mask in zigzag order, all queries attend to the first half of an earlier rank's keys,
 * and the second half of the queries attends to all keys of a later rank. So each block costs the same; see [Note: zigzag].
 */
export function ringBlock(
  { rank }: Share,
  from: number,
  length: number,
  { order, isCausal }: { readonly order: SequenceOrder; readonly isCausal: boolean },
): RingBlock | null {
  if (!isCausal || from === rank) return { firstQuery: 0, numKeys: length, isCausal };
  const isEarlier = from < rank;
  if (order === 'contiguous') return isEarlier ? { firstQuery: 0, numKeys: length, isCausal: false } : null;
  return isEarlier
    ? { firstQuery: 0, numKeys: length / 2, isCausal: false }
    : { firstQuery: length / 2, numKeys: length, isCausal: false };
}
