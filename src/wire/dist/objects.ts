import { deserialize, serialize } from 'node:v8';
import { type Bytes, ConfigError } from '../../core';
import type * as tf from '../../core/tf';
import type { Engine } from '../../engine';
import { VALUE_BYTES } from '../transport/call';
import { wholePiece } from './blocks';
import type { CollectiveOptions, ProcessGroup } from './types';

/**
 * Values of JavaScript travel as the bytes of Node's structured clone, in tensors of int32: first the number of bytes of each
 * value, then the bytes, padded to the longest value of the ranks. Source: torch.distributed.all_gather_object, which does the
 * same with pickle.
 */
const OPTIONS: CollectiveOptions = { cause: 'user' };

/** Returns every rank's value, in rank order. Throws: CONFIG for a value that cannot be copied. */
export function allGatherObject(engine: Engine, group: ProcessGroup, value: unknown): unknown[] {
  const bytes = bytesOf('allGatherObject', value);
  const lengths = lengthsOf(engine, group, bytes.byteLength);
  const room = Math.max(...lengths);
  const own = carrierOf(engine, bytes, room);
  const all = group.ranks.map(() => emptyCarrier(engine, room));
  return using([own, ...all], () => {
    group.allGatherPieces(wholePiece(own), all.map(wholePiece), OPTIONS).wait();
    return all.map((carrier, rank) => valueIn(engine, carrier, lengths[rank]));
  });
}

/** Returns every rank's value on the rank with index `root`; null on other ranks. Throws: CONFIG for a value that cannot be copied. */
export function gatherObject(
  engine: Engine,
  group: ProcessGroup,
  root: number,
  value: unknown,
): unknown[] | null {
  const bytes = bytesOf('gatherObject', value);
  const lengths = lengthsOf(engine, group, bytes.byteLength);
  const room = Math.max(...lengths);
  const own = carrierOf(engine, bytes, room);
  const all = group.rank === root ? group.ranks.map(() => emptyCarrier(engine, room)) : [];
  return using([own, ...all], () => {
    group.gatherPieces(wholePiece(own), all.map(wholePiece), root, OPTIONS).wait();
    if (group.rank !== root) return null;
    return all.map((carrier, rank) => valueIn(engine, carrier, lengths[rank]));
  });
}

/** Replaces the list's elements by those of the root. Throws: CONFIG for lists of different lengths, and for a value that cannot be copied. */
export function broadcastObjects<T extends unknown[]>(
  engine: Engine,
  group: ProcessGroup,
  root: number,
  list: T,
): T {
  const isRoot = group.rank === root;
  // Other ranks send the length of their list, so that all ranks know of a difference before bytes travel.
  const bytes = isRoot ? bytesOf('broadcastObjectList', list) : Buffer.alloc(0);
  const sizes = lengthsOf(engine, group, list.length);
  const different = sizes.findIndex((size) => size !== sizes[root]);
  if (different >= 0) {
    throw new ConfigError(
      `dist.broadcastObjectList: the list of rank ${group.ranks[different]} has ${sizes[different]} elements, that of rank ` +
        `${group.ranks[root]} has ${sizes[root]}; give lists of equal length on all ranks`,
    );
  }
  const room = lengthsOf(engine, group, bytes.byteLength)[root] ?? 0;
  const carrier = isRoot ? carrierOf(engine, bytes, room) : emptyCarrier(engine, room);
  return using([carrier], () => {
    group.broadcast(carrier, root, OPTIONS).wait();
    if (!isRoot) list.splice(0, list.length, ...(valueIn(engine, carrier, room) as unknown[]));
    return list;
  });
}

/** Returns element r of the root's list on rank r. Throws: CONFIG for a list that is not one element for each rank. */
export function scatterObject(
  engine: Engine,
  group: ProcessGroup,
  root: number,
  list: readonly unknown[] | null,
): unknown {
  const isRoot = group.rank === root;
  const ownLength = isRoot ? (list?.length ?? 0) : group.size;
  const numElements = lengthsOf(engine, group, ownLength)[root] ?? 0;
  if (numElements !== group.size) {
    throw new ConfigError(
      `dist.scatterObjectList: the list of rank ${group.ranks[root]} has ${numElements} elements; give one for each of the ${group.size} ranks`,
    );
  }
  const parts = isRoot ? (list ?? []).map((value) => bytesOf('scatterObjectList', value)) : [];
  const longest = Math.max(0, ...parts.map((part) => part.byteLength));
  const room = lengthsOf(engine, group, longest)[root] ?? 0;
  const own = emptyCarrier(engine, room);
  const all = parts.map((part) => carrierOf(engine, part, room));
  return using([own, ...all], () => {
    group.scatterPieces(all.map(wholePiece), wholePiece(own), root, OPTIONS).wait();
    return valueIn(engine, own, room);
  });
}

function bytesOf(call: string, value: unknown): Buffer {
  const wrong = uncopied(value, new Set());
  if (wrong !== undefined)
    throw new ConfigError(`dist.${call}: ${wrong} is not copied to other ranks; ${INSTEAD}`);
  try {
    return serialize(value);
  } catch (error) {
    throw new ConfigError(
      `dist.${call}: the value cannot be copied to other ranks (${error instanceof Error ? error.message : String(error)}); ${INSTEAD}`,
    );
  }
}

const INSTEAD = 'give values, arrays and plain objects, and send tensors by allGather, gather or broadcast';

/** Names a tensor within a value, of which a copy would have no data. */
function uncopied(value: unknown, seen: Set<unknown>): string | undefined {
  if (typeof value !== 'object' || value === null || seen.has(value) || ArrayBuffer.isView(value))
    return undefined;
  seen.add(value);
  if ('dataId' in value && 'shape' in value) return 'a tensor';
  const inner = value instanceof Map ? [...value.keys(), ...value.values()] : Object.values(value);
  for (const element of value instanceof Set ? value : inner) {
    const wrong = uncopied(element, seen);
    if (wrong !== undefined) return wrong;
  }
  return undefined;
}

/** Returns every rank's number. */
function lengthsOf(engine: Engine, group: ProcessGroup, own: number): number[] {
  const mine = carrierOf(engine, Buffer.from(Int32Array.of(own).buffer), VALUE_BYTES);
  const all = emptyCarrier(engine, VALUE_BYTES * group.size);
  return using([mine, all], () => {
    const places = group.ranks.map((_, rank) => [{ tensor: all, offset: rank, length: 1 }]);
    group.allGatherPieces(wholePiece(mine), places, OPTIONS).wait();
    const view = engine.storage(all).view();
    return Array.from(new Int32Array(view.buffer, view.byteOffset, group.size));
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

function valueIn(engine: Engine, carrier: tf.Tensor, length = 0): unknown {
  return deserialize(engine.storage(carrier).view().subarray(0, length));
}

/** Disposes the tensors when `work` ends. */
function using<T>(tensors: readonly tf.Tensor[], work: () => T): T {
  try {
    return work();
  } finally {
    for (const tensor of tensors) tensor.dispose();
  }
}
