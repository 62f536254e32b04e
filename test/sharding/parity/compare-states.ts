import { FIELDS, type Field, type WholeState } from './state-dump';

/** Largest relative difference ‖a−b‖/‖b‖ of a tensor. */
export const RELATIVE_BOUND = 1e-5;

/**
 * The gradient of the keys' bias is zero in theory (it shifts all scores of a row equally, which softmax ignores), so
 * its computed value is rounding noise: it and its moments get an absolute bound.
 */
export const ZERO_BY_THEORY_BOUND = 1e-9;

/** Largest difference of parameters under AdamW's eps 1e-8, which amplifies noise of gradients near zero. */
export const AMPLIFIED_BOUND = 5e-5;

/** The largest difference of one kind, and where it is. */
export interface Difference {
  readonly value: number;
  readonly where: string;
}

/** The largest differences of two states, by kind. */
export interface Comparison {
  /** ‖a−b‖/‖b‖ by field. */
  readonly relative: Readonly<Record<Field, Difference>>;
  /** max|a−b| of the keys' bias, by field. */
  readonly zeroByTheory: Readonly<Record<Field, Difference>>;
  /** max|a−b| over all parameters, by field. */
  readonly absolute: Readonly<Record<Field, Difference>>;
}

type Side = ReadonlyMap<string, WholeState>;

/** Compares every tensor of two states. */
export function compareStates(a: Side, b: Side): Comparison {
  const relative = zeros();
  const zeroByTheory = zeros();
  const absolute = zeros();
  if (a.size !== b.size) throw new Error(`${a.size} parameters against ${b.size}`);
  for (const [name, expected] of b) {
    const actual = a.get(name);
    if (actual === undefined) throw new Error(`${name} is missing`);
    for (const field of FIELDS) {
      const parts = { actual: actual[field], expected: expected[field] };
      note(absolute, field, largest(parts), name);
      if (name.endsWith('qkv.bias')) {
        note(zeroByTheory, field, largest(thirds(parts, [1])), name);
        note(relative, field, ratio(thirds(parts, [0, 2])), name);
      } else {
        note(relative, field, ratio(parts), name);
      }
    }
  }
  return { relative, zeroByTheory, absolute };
}

interface Pair {
  readonly actual: Float32Array;
  readonly expected: Float32Array;
}

/** Some of queries (0), keys (1) and values (2) of a fused bias. */
function thirds({ actual, expected }: Pair, which: readonly number[]): Pair {
  const pick = (values: Float32Array): Float32Array => {
    const third = values.length / 3;
    return Float32Array.from(which.flatMap((i) => [...values.subarray(i * third, (i + 1) * third)]));
  };
  return { actual: pick(actual), expected: pick(expected) };
}

function ratio({ actual, expected }: Pair): number {
  let difference = 0;
  let size = 0;
  for (let i = 0; i < expected.length; i++) {
    const b = expected[i] ?? Number.NaN;
    difference += ((actual[i] ?? Number.NaN) - b) ** 2;
    size += b ** 2;
  }
  return difference === 0 ? 0 : Math.sqrt(difference / size);
}

function largest({ actual, expected }: Pair): number {
  let most = 0;
  for (let i = 0; i < expected.length; i++) {
    const difference = Math.abs((actual[i] ?? Number.NaN) - (expected[i] ?? Number.NaN));
    if (!(difference <= most)) most = difference;
  }
  return most;
}

function zeros(): Record<Field, Difference> {
  const none = { value: 0, where: '' };
  return { values: none, grad: none, expAvg: none, expAvgSq: none };
}

/** Returns the larger difference; NaN is larger than all. */
function note(all: Record<Field, Difference>, field: Field, value: number, where: string): void {
  if (!(value <= all[field].value)) all[field] = { value, where };
}
