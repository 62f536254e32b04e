import { type Bytes, ConfigError } from '../../core';
import type * as tf from '../../core/tf';
import type { Engine } from '../../engine';
import { VALUE_BYTES } from '../transport/call';
import { wholePiece } from './blocks';
import type { CollectiveOptions, ProcessGroup } from './types';

/*
 * [Note: values in collectives] Values of JavaScript travel as bytes in tensors of int32: first the number of bytes of each rank's
 * value, then the bytes, padded to the longest value. Source: torch.distributed.all_gather_object, which does the same with pickle.
 */
const OPTIONS: CollectiveOptions = { cause: 'user' };

/** Turns values of JavaScript into bytes, and back. */
export interface ValueCodec {
  /** Throws: CONFIG, which names `caller` and the part of the value that cannot be sent. */
  encode(value: unknown, caller: string): Uint8Array;
  /** The value shares no memory with the bytes. */
  decode(bytes: Uint8Array): unknown;
}

/** The group that exchanges values, and what it needs. */
export interface Exchange {
  readonly engine: Engine;
  readonly codec: ValueCodec;
  readonly group: ProcessGroup;
}

/** Returns every rank's value, in rank order. Throws: CONFIG for a value that cannot be sent. */
export function allGatherObject(exchange: Exchange, value: unknown): unknown[] {
  const { engine, codec, group } = exchange;
  const bytes = codec.encode(value, 'dist.allGatherObject');
  const lengths = numbersOf(exchange, bytes.byteLength);
  const room = Math.max(...lengths);
  const own = carrierOf(engine, bytes, room);
  const all = group.ranks.map(() => emptyCarrier(engine, room));
  return using([own, ...all], () => {
    group.allGatherPieces(wholePiece(own), all.map(wholePiece), OPTIONS).wait();
    return all.map((carrier, rank) => valueIn(exchange, carrier, lengths[rank]));
  });
}

/** Returns every rank's value on the rank with index `root`; null on other ranks. Throws: CONFIG for a value that cannot be sent. */
export function gatherObject(exchange: Exchange, root: number, value: unknown): unknown[] | null {
  const { engine, codec, group } = exchange;
  const bytes = codec.encode(value, 'dist.gatherObject');
  const lengths = numbersOf(exchange, bytes.byteLength);
  const room = Math.max(...lengths);
  const own = carrierOf(engine, bytes, room);
  const all = group.rank === root ? group.ranks.map(() => emptyCarrier(engine, room)) : [];
  return using([own, ...all], () => {
    group.gatherPieces(wholePiece(own), all.map(wholePiece), root, OPTIONS).wait();
    if (group.rank !== root) return null;
    return all.map((carrier, rank) => valueIn(exchange, carrier, lengths[rank]));
  });
}

/** Replaces the list's elements by those of the root. Throws: CONFIG for lists of different lengths, and for a value that cannot be sent. */
export function broadcastObjects<T extends unknown[]>(exchange: Exchange, root: number, list: T): T {
  const { engine, codec, group } = exchange;
  const isRoot = group.rank === root;
  // Other ranks send the length of their list, so that all ranks know of a difference before bytes travel.
  const bytes = isRoot ? codec.encode(list, 'dist.broadcastObjectList') : Buffer.alloc(0);
  const sizes = numbersOf(exchange, list.length);
  const different = sizes.findIndex((size) => size !== sizes[root]);
  if (different >= 0) {
    throw new ConfigError(
      `dist.broadcastObjectList: the list of rank ${group.ranks[different]} has ${sizes[different]} elements, that of rank ` +
        `${group.ranks[root]} has ${sizes[root]}; give lists of equal length on all ranks`,
    );
  }
  const room = numbersOf(exchange, bytes.byteLength)[root] ?? 0;
  const carrier = isRoot ? carrierOf(engine, bytes, room) : emptyCarrier(engine, room);
  return using([carrier], () => {
    group.broadcast(carrier, root, OPTIONS).wait();
    if (!isRoot) list.splice(0, list.length, ...(valueIn(exchange, carrier, room) as unknown[]));
    return list;
  });
}

/** Returns element r of the root's list on rank r. Throws: CONFIG for a list that is not one element for each rank. */
export function scatterObject(exchange: Exchange, root: number, list: readonly unknown[] | null): unknown {
  const { engine, codec, group } = exchange;
  const isRoot = group.rank === root;
  const ownLength = isRoot ? (list?.length ?? 0) : group.size;
  const numElements = numbersOf(exchange, ownLength)[root] ?? 0;
  if (numElements !== group.size) {
    throw new ConfigError(
      `dist.scatterObjectList: the list of rank ${group.ranks[root]} has ${numElements} elements; give one for each of the ${group.size} ranks`,
    );
  }
  const parts = isRoot ? (list ?? []).map((value) => codec.encode(value, 'dist.scatterObjectList')) : [];
  const longest = Math.max(0, ...parts.map((part) => part.byteLength));
  const room = numbersOf(exchange, longest)[root] ?? 0;
  const own = emptyCarrier(engine, room);
  const all = parts.map((part) => carrierOf(engine, part, room));
  return using([own, ...all], () => {
    group.scatterPieces(all.map(wholePiece), wholePiece(own), root, OPTIONS).wait();
    return valueIn(exchange, own, room);
  });
}

/** Returns every rank's number. */
function numbersOf({ engine, group }: Exchange, own: number): readonly number[] {
  const mine = carrierOf(engine, Buffer.from(Int32Array.of(own).buffer), VALUE_BYTES);
  return using([mine], () => {
    const all = group.allGather(mine, OPTIONS).wait();
    return using([all], () => [...all.dataSync()]);
  });
}

function emptyCarrier(engine: Engine, room: Bytes): tf.Tensor {
  return engine.allocate([Math.ceil(room / VALUE_BYTES)], 'int32', { cause: 'comm', module: '' });
}

function carrierOf(engine: Engine, bytes: Uint8Array, room: Bytes): tf.Tensor {
  const carrier = emptyCarrier(engine, room);
  const view = engine.storage(carrier).view();
  view.set(bytes);
  view.fill(0, bytes.byteLength);
  return carrier;
}

function valueIn({ engine, codec }: Exchange, carrier: tf.Tensor, length = 0): unknown {
  return codec.decode(engine.storage(carrier).view().subarray(0, length));
}

/** Disposes the tensors when `work` ends. */
function using<T>(tensors: readonly tf.Tensor[], work: () => T): T {
  try {
    return work();
  } finally {
    for (const tensor of tensors) tensor.dispose();
  }
}
