import { type DType, ShardlabError } from '../../../core';
import type { Engine } from '../../../engine';
import { type Parameter, readState, type StateBuffer, writePart } from '../../../nn';
import { wholeRangesOf } from './parts';
import type { Range } from './ranges';

/** The state name that stands for a parameter's values; all other state names belong to the optimizer. */
export const VALUES = 'values';

/** Reads and writes elements of an optimizer's states. */
export interface ElementStates {
  readonly stateNames: readonly string[];
  /** Whether the optimizer stores a state's values exactly as they are written. */
  isExact(name: string): boolean;
  readState(buffer: StateBuffer, name: string, offset?: number, length?: number): Float32Array;
  writeState(buffer: StateBuffer, name: string, offset: number, values: Float32Array): void;
}

/** The optimizer states of one side; if `writeState` is missing, they can only be read. */
type SideStates = Pick<ElementStates, 'readState'> & Partial<Pick<ElementStates, 'writeState'>>;

/** Identifies a tensor of a training: a parameter's values, or one of the parameter's optimizer states. */
export interface StateName {
  /** The parameter's index in the model's order. */
  readonly parameter: number;
  /** VALUES, or a state of the optimizer. */
  readonly state: string;
}

/**
 * Reads and writes this rank's elements. Ranges are ranges of the whole flattened parameter. For an int32 tensor, the floats
 * have the bits of the integers.
 */
export interface StateAccess {
  read(name: StateName, range: Range): Float32Array;
  /** Writes elements. The caller notifies the buffers of the change. */
  write(name: StateName, range: Range, values: Float32Array): void;
}

/**
 * Returns access to this rank's elements of one side; `side` is null if the rank has no elements of it. Reads and writes throw
 * INTERNAL for elements that this rank does not hold.
 */
export function stateAccess(
  engine: Engine,
  side: { readonly parameters: readonly Parameter[]; readonly optimizer: SideStates | null } | null,
): StateAccess {
  const partsOf = (name: StateName, range: Range): Part[] => {
    const parameter = side?.parameters[name.parameter];
    const parts = parameter === undefined ? [] : overlaps(parameter, range);
    const numHeld = parts.reduce((sum, { length }) => sum + length, 0);
    if (numHeld === range.length) return parts;
    throw new ShardlabError(
      'INTERNAL',
      `this rank holds ${numHeld} of ${range.length} elements of ${parameter?.name ?? 'a parameter'} from ${range.start} on`,
    );
  };
  return {
    read(name, range) {
      const values = new Float32Array(range.length);
      for (const { buffer, offset, at, length } of partsOf(name, range)) {
        const part =
          name.state === VALUES
            ? readState(engine, buffer, 'values', offset, length)
            : side?.optimizer?.readState(buffer, name.state, offset, length);
        if (part !== undefined) values.set(part, at);
      }
      return values;
    },
    write(name, range, values) {
      for (const { buffer, offset, at, length } of partsOf(name, range)) {
        const part = values.subarray(at, at + length);
        if (name.state === VALUES) writePart(engine, buffer, offset, part);
        else side?.optimizer?.writeState?.(buffer, name.state, offset, part);
      }
    },
  };
}

/**
 * Converts numbers to the form that a StateAccess writes; for an int32 tensor, these are the floats with the bits of the
 * integers.
 */
export function asStored(dtype: DType, numbers: Float32Array | Int32Array): Float32Array {
  if (dtype === 'int32') return new Float32Array(Int32Array.from(numbers).buffer);
  return numbers instanceof Float32Array ? numbers : Float32Array.from(numbers);
}

/** Converts values that a StateAccess has read to numbers. */
export function asNumbers(dtype: DType, values: Float32Array): Float32Array {
  return dtype === 'int32' ? Float32Array.from(integersIn(values)) : values;
}

/** Returns the integers whose bits a StateAccess has read from an int32 tensor. */
export function integersIn(values: Float32Array): Int32Array {
  return new Int32Array(values.slice().buffer);
}

/**
 * Returns the index of the first element whose bits differ; a NaN equals a NaN with the same bits. Undefined if all bits are
 * equal.
 */
export function firstDifference(a: Float32Array, b: Float32Array): number | undefined {
  const bitsOf = (values: Float32Array) => new Int32Array(values.buffer, values.byteOffset, values.length);
  const [left, right] = [bitsOf(a), bitsOf(b)];
  const at = left.findIndex((bits, i) => bits !== right[i]);
  return at < 0 ? undefined : at;
}

interface Part {
  readonly buffer: StateBuffer;
  /** The index, in the buffer, of the part's first element. */
  readonly offset: number;
  /** The index, in the requested range, of the part's first element. */
  readonly at: number;
  readonly length: number;
}

function overlaps(parameter: Parameter, range: Range): Part[] {
  const buffer = parameter.state;
  return buffer.slices.flatMap((slice) => {
    const held = slice.parameter === parameter ? wholeRangesOf(parameter, slice, range) : [];
    return held.map(({ start, at, length }) => {
      return { buffer, offset: slice.offset + at - slice.start, at: start - range.start, length };
    });
  });
}
