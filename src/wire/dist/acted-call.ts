import { ConfigError, type PointAction, type PointValues } from '../../core';
import * as tf from '../../core/tf';
import type { Engine } from '../../engine';
import {
  type BlockList,
  blocksLength,
  type Call,
  type CallHeader,
  type StorageBlock,
  VALUE_BYTES,
} from '../transport/call';
import type { Work } from './types';
import { type CallTensors, hold } from './work';

/*
 * [Note: actions on calls] A point's action may change what this rank brings to a collective, and what the rank has after it. The
 * caller's own tensors stay as they are: a changed contribution is a copy, except where a collective writes its result over its
 * input. What an asynchronous call got is changed when the caller waits for it, because no caller reads it before.
 */

/** A call that an action has changed, and the tensors that were made for it. */
interface ActedCall {
  readonly call: Call;
  readonly copies: readonly tf.Tensor[];
}

/** Returns the call with what `brings` makes of its inputs. */
export function withBrought(engine: Engine, call: Call, { brings }: PointAction): ActedCall {
  if (brings === undefined || !hasFloats(engine, call)) return { call, copies: [] };
  const { inputs, outputs, header } = call;
  const isInPlace = inputs[0] !== undefined && inputs[0] === outputs[0];
  const copies: tf.Tensor[] = [];
  const lists = isInPlace
    ? inputs
    : inputs.map((list) => {
        const tag = { cause: 'comm', module: header.module } as const;
        const copy = tf.keep(engine.allocate([blocksLength(list)], 'float32', tag));
        copies.push(copy);
        return copied(engine, list, copy);
      });
  brings(valuesOf(lists));
  return { call: { ...call, inputs: lists, outputs: isInPlace ? lists : outputs }, copies };
}

/** A started call, with the tensors that it needs, and this rank's index in the group. */
interface StartedCall<T> {
  readonly call: Call;
  readonly held: CallTensors['held'];
  readonly rank: number;
  readonly work: Work<T>;
}

/** Lets an action read and change the result of a call: of an asynchronous call, when the caller waits for the result. */
export function withResult<T>(
  engine: Engine,
  { call, held, rank, work }: StartedCall<T>,
  { got }: PointAction,
): Work<T> {
  if (got === undefined || !hasFloats(engine, call)) return work;
  const act = (): void => got(valuesOf(receivedBy(call, rank)));
  if (!call.header.async) {
    act();
    return work;
  }
  const tensors = held.map(hold);
  let isDone = false;
  return {
    get done() {
      return work.done;
    },
    get agrees() {
      return work.agrees ?? true;
    },
    wait() {
      try {
        const value = work.wait();
        if (!isDone) act();
        return value;
      } finally {
        if (!isDone) for (const tensor of tensors) tensor.dispose();
        isDone = true;
      }
    },
  };
}

function hasFloats(engine: Engine, { header }: Call): boolean {
  return engine.hasValues && header.dtype === 'float32';
}

/** What a rank receives: of a gather, the parts of the other ranks. `rank` is the rank's index in the group. */
function receivedBy({ header, outputs }: Call, rank: number): readonly BlockList[] {
  const isGather = header.op === 'allGather' || header.op === 'gather';
  return isGather ? outputs.filter((_, index) => index !== rank) : outputs;
}

function copied(engine: Engine, list: BlockList, copy: tf.Tensor): BlockList {
  const storage = engine.storage(copy);
  let offset = 0;
  return list.map((block): StorageBlock => {
    if (block.storage === undefined) return block;
    const own = { storage, offset, length: block.length };
    floatsIn(own).set(floatsIn(block));
    offset += block.length;
    return own;
  });
}

function valuesOf(lists: readonly BlockList[]): PointValues {
  return lists.flatMap((list) => list.flatMap((block) => (block.length > 0 ? floatsIn(block) : [])));
}

function floatsIn({ storage, offset, length }: StorageBlock): Float32Array {
  if (storage === undefined) return new Float32Array(length);
  const bytes = storage.view();
  return new Float32Array(bytes.buffer, bytes.byteOffset + offset * VALUE_BYTES, length);
}

/**
 * A call that changes places with the next call of its group on this rank: it starts after the next one, and the two exchange
 * their numbers, as if the program had called them in this order.
 */
export class WaitingCall<T> implements Work<T> {
  readonly header: CallHeader;
  readonly #begin: (number: number) => Work<T>;
  #work: Work<T> | undefined;

  constructor(header: CallHeader, begin: (number: number) => Work<T>) {
    this.header = header;
    this.#begin = begin;
  }

  /** Whether this call and another are numbered together, so that they can change places. */
  isBefore({ op, epoch }: CallHeader): boolean {
    return epoch === this.header.epoch && op !== 'send' && op !== 'recv';
  }

  start(number: number): void {
    this.#work = this.#begin(number);
  }

  get done(): boolean {
    return this.#work?.done ?? false;
  }

  get agrees(): boolean {
    return this.#work?.agrees ?? true;
  }

  /** Throws: CONFIG if no other call was started; errors of the call. */
  wait(): T {
    if (this.#work !== undefined) return this.#work.wait();
    const { op, module, number } = this.header;
    throw new ConfigError(
      `the ${op}${module === '' ? '' : ` of ${module}`} (#${number}) has no neighbour to change places with: this rank needs its result ` +
        "before it starts another collective of the group. Plant 'wrong order' at an asynchronous collective that others follow, such as " +
        "'reduceScatter' of FULL_SHARD",
    );
  }
}
