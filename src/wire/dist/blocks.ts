import { type HalfDType, isWhole, roundValues, ShardlabError } from '../../core';
import type * as tf from '../../core/tf';
import type { Engine, Storage } from '../../engine';
import type { BlockList, CallOp, StorageBlock, ValueDType } from '../transport/call';
import { blocksLength, VALUE_BYTES } from '../transport/call';
import type { PieceList } from './types';

/** Returns the whole tensor as one piece. */
export function wholePiece(tensor: tf.Tensor): PieceList {
  return [{ tensor, offset: 0, length: tensor.size }];
}

/**
 * Returns the memory blocks that the pieces name. Throws: SHAPE if a piece ends outside of its tensor, or if its tensor was
 * disposed.
 */
export function resolvePieces(engine: Engine, pieces: PieceList): BlockList {
  return pieces.map((piece): StorageBlock => {
    if ('padding' in piece) {
      checkLength(piece.padding, 'padding');
      return { storage: undefined, offset: 0, length: piece.padding };
    }
    const { tensor, offset, length } = piece;
    checkRange(tensor, offset, length);
    return { storage: storageOf(engine, tensor), offset, length };
  });
}

function storageOf(engine: Engine, tensor: tf.Tensor): Storage {
  if (tensor.isDisposed) {
    throw new ShardlabError(
      'SHAPE',
      `a tensor of shape [${tensor.shape}] was disposed before its collective`,
    );
  }
  return engine.storage(tensor);
}

function checkRange(tensor: tf.Tensor, offset: number, length: number): void {
  checkLength(length, 'length');
  checkLength(offset, 'offset');
  if (offset + length <= tensor.size) return;
  throw new ShardlabError(
    'SHAPE',
    `a piece [${offset}, ${offset + length}) reaches beyond its tensor of shape [${tensor.shape}] with ${tensor.size} elements`,
  );
}

function checkLength(value: number, field: string): void {
  if (isWhole(value, 0)) return;
  throw new ShardlabError('SHAPE', `a piece's ${field} must be an integer of at least 0, not ${value}`);
}

/** Returns the dtype of all pieces. Throws: SHAPE if dtypes differ, or for a dtype other than float32 and int32. */
export function commonDType(lists: readonly PieceList[]): ValueDType {
  let common: ValueDType | undefined;
  for (const list of lists) {
    for (const piece of list) {
      if ('padding' in piece) continue;
      const { dtype } = piece.tensor;
      if (dtype !== 'float32' && dtype !== 'int32') {
        throw new ShardlabError(
          'SHAPE',
          `collectives carry float32 and int32, not ${dtype}; cast the tensor first`,
        );
      }
      if (common !== undefined && common !== dtype) {
        throw new ShardlabError(
          'SHAPE',
          `one collective carries one dtype, but its pieces are ${common} and ${dtype}`,
        );
      }
      common = dtype;
    }
  }
  return common ?? 'float32';
}

/** Returns a call's number of elements, the `count` of its CollectiveEvent. */
export function countOf(op: CallOp, inputs: readonly BlockList[], outputs: readonly BlockList[]): number {
  const lists = op === 'recv' || op === 'scatter' ? outputs : inputs;
  return lists.reduce((sum, list) => sum + blocksLength(list), 0);
}

/** Returns the tensors that lists of pieces name, each once. */
export function tensorsOf(lists: readonly PieceList[]): tf.Tensor[] {
  const tensors = new Set<tf.Tensor>();
  for (const list of lists) for (const piece of list) if ('tensor' in piece) tensors.add(piece.tensor);
  return [...tensors];
}

/**
 * Copies blocks within this process: padding of the input is copied as zeros, and values that belong to padding of the output
 * are dropped.
 */
export function copyBlocks(from: BlockList, to: BlockList): void {
  let [source, target] = [0, 0];
  let [readFrom, writeTo] = [0, 0];
  while (source < from.length && target < to.length) {
    const input = from[source];
    const output = to[target];
    if (input === undefined || output === undefined) return;
    const length = Math.min(input.length - readFrom, output.length - writeTo);
    copyPart(input, readFrom, output, writeTo, length);
    readFrom += length;
    writeTo += length;
    if (readFrom === input.length) [source, readFrom] = [source + 1, 0];
    if (writeTo === output.length) [target, writeTo] = [target + 1, 0];
  }
}

/** Rounds the elements in place to a 16-bit wire dtype. */
export function roundBlocks(list: BlockList, dtype: HalfDType): void {
  for (const { storage, offset, length } of list) {
    if (storage === undefined) continue;
    const bytes = storage.view();
    roundValues(new Float32Array(bytes.buffer, bytes.byteOffset + offset * VALUE_BYTES, length), dtype);
  }
}

function copyPart(
  from: StorageBlock,
  readFrom: number,
  to: StorageBlock,
  writeTo: number,
  length: number,
): void {
  if (to.storage === undefined || length === 0) return;
  const at = (to.offset + writeTo) * VALUE_BYTES;
  const view = to.storage.view();
  if (from.storage === undefined) {
    view.fill(0, at, at + length * VALUE_BYTES);
    return;
  }
  const start = (from.offset + readFrom) * VALUE_BYTES;
  view.set(from.storage.view().subarray(start, start + length * VALUE_BYTES), at);
}
