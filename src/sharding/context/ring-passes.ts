import { ShardlabError } from '../../core';
import * as tf from '../../core/tf';
import { type FlashAttention, flashAttention, flashAttentionGrad, tidy } from '../../engine';
import type { CollectiveOptions, ProcessGroup } from '../../wire';
import { mergeAttention } from './merge-attention';
import type { RingBlock } from './ring-blocks';
import { type Passing, passOn } from './ring-passing';
import { sliced } from './sequence-order';

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
export function ringForward(ring: Ring, q: tf.Tensor, k: tf.Tensor, v: tf.Tensor): FlashAttention {
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
export function ringBackward(ring: Ring, saved: readonly tf.Tensor[], dOut: tf.Tensor): tf.Tensor[] {
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
