import { tidy } from '../../autograd/tape';
import { type FlashAttention, flashAttention, flashAttentionGrad } from '../../backend/ops';
import { ShardlabError } from '../../core/errors';
import * as tf from '../../core/tf';
import type { CollectiveOptions, ProcessGroup } from '../../dist/types';
import { mergeAttention } from './merge-attention';
import type { RingBlock } from './ring-blocks';
import { type Passing, passOn } from './ring-passing';
import { sliced } from './sequence-order';

// [Note: ring attention] in ring-attention.ts describes both passes.

/** What the passes over a ring need besides tensors. */
export interface Ring {
  readonly group: ProcessGroup;
  readonly scale: number;
  readonly exchange: CollectiveOptions & { readonly module: string };
  /** Returns what this rank computes with the keys of rank `from`; null: nothing. */
  block(from: number): RingBlock | null;
}

/** Keys and values of one rank. */
type Part = readonly [k: tf.Tensor, v: tf.Tensor];

/** Returns attention to the keys of all ranks. */
export function ringForward(ring: Ring, q: tf.Tensor, k: tf.Tensor, v: tf.Tensor): FlashAttention {
  let sum: FlashAttention | null = null;
  forEachPart(ring, [k, v], (part, block) => {
    if (block === null) return;
    const before: FlashAttention | null = sum;
    sum = tidy(() => {
      const { firstQuery, isCausal } = block;
      const [keys, values] = keysOf(part, block);
      const options = { causal: isCausal, scale: ring.scale };
      const found = flashAttention(from(q, firstQuery), keys, values, options);
      return before === null ? found : mergeAttention(before, found, firstQuery);
    });
    tf.dispose({ ...(before as FlashAttention | null) });
  });
  if (sum === null) throw new ShardlabError('INTERNAL', 'a rank of a ring attended to no keys');
  return sum;
}

/** Returns the gradients of q, k and v. `saved`: q, k, v, and the attention to the keys of all ranks. */
export function ringBackward(ring: Ring, saved: readonly tf.Tensor[], dOut: tf.Tensor): tf.Tensor[] {
  const [q, k, v, out, lse] = saved as [tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor]; // as many as forward saved
  let dq: tf.Tensor = tf.zerosLike(q);
  /** The gradients of the rank's own part, from its own queries. */
  let own: Part | null = null;
  let travelling: Travelling | null = null;
  forEachPart(ring, [k, v], (part, block) => {
    const shares = block === null ? null : gradientsOf(ring, [q, out, lse, dOut], part, block);
    if (shares !== null) dq = replaced(dq, () => tf.add(dq, shares.dq));
    shares?.dq.dispose();
    const gradients: Part = shares?.part ?? [tf.zerosLike(k), tf.zerosLike(v)];
    if (own === null) own = gradients;
    else travelling = sentOn(ring, added(travelling, gradients));
  });
  const [dk, dv] = added(travelling, own ?? [tf.zerosLike(k), tf.zerosLike(v)]);
  return [dq, dk, dv];
}

/** Gradients of a part that are on their way, and the tensors that are sent. */
interface Travelling {
  readonly sent: Part;
  readonly passing: Passing;
}

/** Sends sums of gradients with 32 bits, because every rank would round a sum of 16 bits again. */
function sentOn({ group, exchange }: Ring, sent: Part): Travelling {
  return { sent, passing: passOn(sent, group, { ...exchange, wireDType: 'float32' }) };
}

/** Adds this rank's share to the gradients that arrive, if there are any; disposes both. */
function added(travelling: Travelling | null, share: Part): Part {
  if (travelling === null) return share;
  const [dk, dv] = travelling.passing.arrived() as [tf.Tensor, tf.Tensor]; // as many as were sent
  const sums: Part = [tf.add(dk, share[0]), tf.add(dv, share[1])];
  tf.dispose([dk, dv, ...share, ...travelling.sent]);
  return sums;
}

/** Calls `work` with each rank's part, the own part first, while the part travels on to the next rank. */
function forEachPart(ring: Ring, own: Part, work: (part: Part, block: RingBlock | null) => void): void {
  const { group, exchange } = ring;
  const { rank, size } = group;
  let part = own;
  for (let step = 0; step < size; step++) {
    const passing = step + 1 < size ? passOn(part, group, exchange) : null;
    work(part, ring.block((rank - step + size) % size));
    const next = passing?.arrived();
    if (step > 0) tf.dispose([...part]);
    if (next !== undefined) part = next as [tf.Tensor, tf.Tensor]; // as many as were sent
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

/** Returns the result of `work` and disposes the old tensor. */
function replaced(old: tf.Tensor, work: () => tf.Tensor): tf.Tensor {
  const next = work();
  old.dispose();
  return next;
}
