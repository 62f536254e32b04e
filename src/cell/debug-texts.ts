import { inspect } from 'node:util';
import { globalSlot } from '../core';
import type { ObjectText } from './debug-protocol';
import { isTensor, type TensorLike, toPlainText } from './mime';

/** The name of the slot with `DebugTexts`. */
export const DEBUG_TEXTS = 'shardlab.debug texts';

/** The functions that a debug agent calls in the thread that it debugs. */
export interface DebugTexts {
  /** Describes objects in one line each. */
  describe(...objects: readonly unknown[]): readonly ObjectText[];
  /** Returns an object whose properties a debugger shows as those of `value`. */
  members(value: unknown): unknown;
  /** Returns the text that a notebook shows for a value. */
  full(value: unknown): string;
}

const MOST_CHARACTERS = 200;
/** The number of a tensor's values in its line, and among its members. */
const FIRST_VALUES = 6;
const MORE_VALUES = 100;

/** Lets debuggers describe the values of this process. */
export function offerDebugTexts(): void {
  globalSlot<DebugTexts>(DEBUG_TEXTS).value = {
    describe: (...objects) => objects.map(describe),
    members: (value) => membersOf(value),
    full: (value) => toPlainText(value),
  };
}

function describe(value: unknown): ObjectText {
  try {
    if (isTensor(value)) return { text: tensorLine(value), type: 'Tensor' };
    const text = inspect(value, {
      depth: 1,
      breakLength: Number.POSITIVE_INFINITY,
      maxArrayLength: FIRST_VALUES,
      maxStringLength: MOST_CHARACTERS,
    });
    return { text: inLine(text), type: typeName(value) };
  } catch (error) {
    return { text: `(reading this value throws: ${inLine(String(error))})`, type: typeof value };
  }
}

function inLine(text: string): string {
  const line = text.replace(/\s*\n\s*/g, ' ');
  return line.length > MOST_CHARACTERS ? `${line.slice(0, MOST_CHARACTERS)}…` : line;
}

function typeName(value: unknown): string {
  const name: unknown = Object(value).constructor?.name;
  return typeof name === 'string' && name !== '' ? name : typeof value;
}

/** Returns a tensor's dtype, shape and first values, such as "float32[2, 3] 1, 2, 3, 4, 5, 6". */
function tensorLine(tensor: TensorLike): string {
  const head = `${tensor.dtype}[${tensor.shape.join(', ')}]`;
  if (tensor.isDisposed) return `${head} (disposed)`;
  const values = firstValues(tensor, FIRST_VALUES);
  if (values === undefined) return `${head} (its values are not in memory now)`;
  const more = sizeOf(tensor) > values.length ? ', …' : '';
  return `${head} ${values.map((value) => inspect(value)).join(', ')}${more}`;
}

function sizeOf({ shape }: TensorLike): number {
  return shape.reduce((size, length) => size * length, 1);
}

/** The parts of tfjs's engine that read values. Its tensors have no method that reads a part of the values. */
interface TensorStore {
  readonly state: {
    readonly tensorInfo: WeakMap<
      object,
      {
        readonly backend: {
          readSync(dataId: object, start: number, end: number): ArrayLike<unknown>;
        };
      }
    >;
  };
}

/**
 * Returns a tensor's first values; undefined if they are not in memory, as those of a parameter whose unit has freed it. Reads the
 * buffer itself: no operation runs, none is recorded, and no rank communicates.
 */
function firstValues(tensor: TensorLike, most: number): readonly unknown[] | undefined {
  const count = Math.min(sizeOf(tensor), most);
  if (count === 0) return [];
  try {
    // tfjs stores its engine in this global.
    const { state } = Reflect.get(globalThis, '_tfengine') as TensorStore;
    const values = state.tensorInfo.get(tensor.dataId)?.backend.readSync(tensor.dataId, 0, count);
    return values === undefined ? undefined : Array.from({ length: count }, (_, i) => rounded(values[i]));
  } catch {
    return undefined;
  }
}

/** Returns a number with the digits that a float32 has. */
function rounded(value: unknown): unknown {
  return typeof value === 'number' ? Number(value.toPrecision(7)) : value;
}

function isList(value: unknown): value is ArrayLike<unknown> {
  return Array.isArray(value) || (ArrayBuffer.isView(value) && !(value instanceof DataView));
}

function membersOf(value: unknown): unknown {
  if (isTensor(value)) {
    const { dtype, shape, isDisposed } = value;
    const values = isDisposed ? undefined : firstValues(value, MORE_VALUES);
    return { dtype, shape, size: sizeOf(value), ...(values && { values }) };
  }
  if (isList(value) && value.length > MORE_VALUES) {
    const first = Array.prototype.slice.call(value, 0, MORE_VALUES);
    return { ...first, length: value.length };
  }
  if (value instanceof Map) return Object.fromEntries([...value].map(([key, item]) => [inspect(key), item]));
  return value instanceof Set ? [...value] : value;
}
