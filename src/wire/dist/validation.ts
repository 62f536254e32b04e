import { ConfigError, classOf, isIndex, ShardlabError, shown, type WireDType } from '../../core';
import type * as tf from '../../core/tf';
import type { CallOp, Contents, ValueDType } from '../transport/call';
import { type GroupIdentity, speaker } from '../transport/mismatch';
import { wordOf } from '../transport/record';
import type { CollectiveOptions, PieceList, ProcessGroup } from './types';

/**
 * Returns the type on the wire: `wanted`, or `dtype` if `wanted` is undefined. Throws: SHAPE if `dtype` cannot be sent as
 * `wanted`.
 */
export function wireOf(
  identity: GroupIdentity,
  op: CallOp,
  dtype: ValueDType,
  wanted: WireDType | undefined,
): WireDType {
  if (wanted === undefined || wanted === dtype) return dtype;
  if (dtype === 'float32' && wanted !== 'int32') return wanted;
  throw new ShardlabError(
    'SHAPE',
    `${speaker(identity)} ${op} of ${dtype} cannot be sent as ${wanted}; ` +
      `omit wireDType${dtype === 'float32' ? " or use 'bfloat16' or 'float16'" : ''}`,
  );
}

/** Returns what ranks compare about the data of a call: what the caller says, or the name of the module. */
export function contentsIn({ contents, module = '' }: CollectiveOptions): Contents | undefined {
  return contents ?? (module === '' ? undefined : { word: wordOf(module), text: '' });
}

/**
 * Returns the group that a caller in JavaScript gave to the function `caller`. Throws: CONFIG for null, which `newGroup` returns on
 * ranks outside of the group, and for a value that is not a group.
 */
export function requireGroup(caller: string, group: ProcessGroup | null): ProcessGroup {
  if (group !== null && isGroup(group)) return group;
  throw new ConfigError(
    group === null
      ? `${caller} got the group null, which newGroup gives on ranks outside of the group; call ${caller} only on the group's ranks`
      : `${caller} takes a group of dist.newGroup or of a mesh, not ${classOf(group)}; leave the group out for all ranks`,
  );
}

function isGroup(value: ProcessGroup): boolean {
  try {
    return typeof value.allReduce === 'function';
  } catch {
    return false; // reading the value throws
  }
}

/** Checks that `lists` has one list per rank. Throws: SHAPE. */
export function checkOneListEach(
  identity: GroupIdentity,
  call: string,
  contents: string,
  lists: readonly PieceList[],
): void {
  const size = identity.ranks.length;
  if (lists.length === size) return;
  throw new ShardlabError(
    'SHAPE',
    `${speaker(identity)} ${call} in group ${identity.name} of ${size} ranks got ${lists.length} ${contents}; give one list for each rank`,
  );
}

/** Checks that the rank's own part is as long as the rank's entry in the list of all ranks' parts. Throws: SHAPE. */
export function checkOwnPart(identity: GroupIdentity, call: string, own: PieceList, entry: PieceList): void {
  const [length, expected] = [lengthOf(own), lengthOf(entry)];
  if (length === expected) return;
  throw new ShardlabError(
    'SHAPE',
    `${speaker(identity)} ${call} in group ${identity.name}: this rank's own part has ${length} elements, but entry ` +
      `${identity.rank} of the list of all ranks' parts has ${expected}; make both equal`,
    { details: { length, expected } },
  );
}

/**
 * Checks the lists of a collective with a root: only the root passes lists, one for each rank, all as long as its own part. Throws:
 * SHAPE.
 */
export function checkRootLists(
  identity: GroupIdentity,
  call: string,
  {
    root,
    own,
    lists,
  }: { readonly root: number; readonly own: PieceList; readonly lists: readonly PieceList[] },
): void {
  if (identity.rank !== root) {
    if (lists.length === 0) return;
    throw new ShardlabError(
      'SHAPE',
      `${speaker(identity)} ${call} got ${lists.length} lists, but only rank ${identity.ranks[root]} passes lists; pass []`,
    );
  }
  checkOneListEach(identity, call, 'lists', lists);
  const expected = lengthOf(own);
  for (const [index, list] of lists.entries()) {
    const length = lengthOf(list);
    if (length === expected) continue;
    throw new ShardlabError(
      'SHAPE',
      `${speaker(identity)} ${call}: the list of rank ${identity.ranks[index]} has ${length} elements, but this rank's own part has ` +
        `${expected}; make all equal`,
      { details: { length, expected } },
    );
  }
}

function lengthOf(pieces: PieceList): number {
  return pieces.reduce((sum, piece) => sum + ('padding' in piece ? piece.padding : piece.length), 0);
}

/** Returns the number of rows of axis 0 per rank. Throws: SHAPE if the ranks do not divide axis 0. */
export function rowsPerRank(identity: GroupIdentity, call: string, tensor: tf.Tensor): number {
  const size = identity.ranks.length;
  const [rows] = tensor.shape;
  if (rows !== undefined && rows % size === 0) return rows / size;
  throw new ShardlabError(
    'SHAPE',
    `${speaker(identity)} ${call} splits axis 0 of a tensor of shape [${tensor.shape}] among ${size} ranks; ` +
      `make axis 0 divisible by ${size}, or use ${call}Pieces for uneven parts`,
    { details: { shape: tensor.shape, size } },
  );
}

/** Checks that `rank` is a rank index in the group and, if `isPeer` is true, that it is not this rank. Throws: CONFIG. */
export function checkRank(
  identity: GroupIdentity,
  call: string,
  role: string,
  rank: number,
  isPeer = false,
): void {
  const size = identity.ranks.length;
  if (!isIndex(rank, size)) {
    throw new ConfigError(
      `${speaker(identity)} ${call} got ${role} ${rank}, but group ${identity.name} has ranks 0 to ${size - 1}`,
    );
  }
  if (isPeer && rank === identity.rank) {
    throw new ConfigError(
      `${speaker(identity)} ${call} got its own rank as ${role}; name another rank of the group`,
    );
  }
}

/** Checks that all ranks are in the group and that none is named twice. Throws: MESH. */
export function checkSubgroup(identity: GroupIdentity, ranks: readonly number[]): void {
  const size = identity.ranks.length;
  const outside = ranks.filter((rank) => !isIndex(rank, size));
  if (ranks.length > 0 && outside.length === 0 && new Set(ranks).size === ranks.length) return;
  throw new ShardlabError(
    'MESH',
    `${speaker(identity)} a subgroup of ${shown(ranks)} cannot be made in group ${identity.name} of ${size} ranks; ` +
      `name one or more different ranks from 0 to ${size - 1}`,
    { details: { ranks, size } },
  );
}
