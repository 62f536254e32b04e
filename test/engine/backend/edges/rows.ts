import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import * as tf from '../../../../src/core/tf';
import { repositoryRoot } from '../../../support/paths';
import { type CallArguments, callOf } from './calls';

/** A number in JSON; the texts are NaN, ±Infinity and -0. */
type Told = number | 'N' | 'I' | '-I' | '-0';

const TYPES = { f: 'float32', i: 'int32', b: 'bool' } as const;

interface Written {
  readonly t: keyof typeof TYPES;
  readonly s: number[];
  readonly v?: readonly Told[];
  /** Scale and shift of a ramp in place of values. */
  readonly r?: readonly [number, number];
  /** Only every n-th element is in `v`. */
  readonly every?: number;
}

/** A call of edges_reference.json; see edges_reference.py. */
export interface Row {
  readonly op: string;
  readonly in: readonly Written[];
  readonly a?: Partial<CallArguments>;
  readonly tol?: number;
  /** Absent: torch refuses the call. */
  readonly out?: readonly Written[];
  readonly g?: readonly (readonly Told[] | null)[];
}

export function readRows(): Row[] {
  const file = join(repositoryRoot(), 'test', 'data', 'edges_reference.json');
  return JSON.parse(readFileSync(file, 'utf8')) as Row[];
}

const SPECIAL = { N: Number.NaN, I: Infinity, '-I': -Infinity, '-0': -0 } as const;

function number(told: Told): number {
  return typeof told === 'number' ? told : SPECIAL[told];
}

function tensorOf({ t, s, v, r }: Written): tf.Tensor {
  if (v !== undefined) return tf.tensor(v.map(number), s, TYPES[t]);
  const [scale = 1, shift = 0] = r ?? [];
  const length = s.reduce((a, b) => a * b, 1);
  const values = t === 'i' ? new Int32Array(length) : new Float32Array(length);
  for (let k = 0; k < length; k++) {
    const value = (((7919 * k) % 1009) / 1009) * scale + shift;
    values[k] = t === 'i' ? Math.floor(value) : value;
  }
  return tf.tensor(values, s, TYPES[t]);
}

/** Returns what differs in a row; null if nothing does. */
export function differenceIn(row: Row): string | null {
  let difference: string | null = null;
  tf.tidy(() => {
    difference = rowDifference(row);
  });
  return difference;
}

/** Returns what differs between the engine's and torch's results of a row, and its gradients; null if nothing does. */
function rowDifference(row: Row): string | null {
  const inputs = row.in.map(tensorOf);
  const call = callOf(row.op);
  const run = (given: readonly tf.Tensor[]): readonly tf.Tensor[] => [call(given, argumentsOf(row))].flat();
  let results: readonly tf.Tensor[];
  try {
    results = run(inputs);
  } catch (error) {
    return row.out === undefined ? null : `throws ${String(error)}`;
  }
  if (row.out === undefined) return `is ${results.map(told)}, but torch refuses it`;
  for (const [i, expected] of row.out.entries()) {
    const difference = differenceOf(results[i], expected, row.tol);
    if (difference !== null) return `result ${i} ${difference}`;
  }
  return gradientDifference(row, inputs, (given) => run(given)[0] as tf.Tensor);
}

/** Returns the results of a row on the current backend, as a row has them; undefined if the backend refuses the call. */
export function resultsOf(row: Row): Written[] | undefined {
  let results: Written[] | undefined;
  tf.tidy(() => {
    try {
      const made = [callOf(row.op)(row.in.map(tensorOf), argumentsOf(row))].flat();
      results = made.map((tensor) => ({
        t: tensor.dtype === 'float32' ? 'f' : tensor.dtype === 'int32' ? 'i' : 'b',
        s: tensor.shape,
        v: Array.from(tensor.dataSync(), toldOf),
      }));
    } catch {
      // The backend refuses the call.
    }
  });
  return results;
}

function toldOf(value: number): Told {
  if (Number.isNaN(value)) return 'N';
  if (Object.is(value, -0)) return '-0';
  return Number.isFinite(value) ? value : value > 0 ? 'I' : '-I';
}

/** Returns what differs between the shapes of a row's results, and gradients, on the current engine and torch's; null if nothing does. */
export function shapeDifferenceIn(row: Row): string | null {
  const { out, g, in: specs } = row;
  if (out === undefined) return null;
  const call = callOf(row.op);
  let difference: string | null = null;
  tf.tidy(() => {
    try {
      const inputs = specs.map(tensorOf);
      const run = (given: readonly tf.Tensor[]): readonly tf.Tensor[] =>
        [call(given, argumentsOf(row))].flat();
      const shapes = run(inputs).map(({ dtype, shape }) => `${dtype} [${shape}]`);
      const expected = out.map(({ t, s }) => `${TYPES[t]} [${s}]`);
      if (shapes.join() !== expected.join()) difference = `is ${shapes.join()}, not ${expected.join()}`;
      if (g === undefined) return;
      const places = specs.flatMap(({ t }, i) => (t === 'f' ? [i] : []));
      const compute = (...floats: tf.Tensor[]): tf.Tensor =>
        run(inputs.map((input, i) => floats[places.indexOf(i)] ?? input))[0] as tf.Tensor;
      const found = tf.grads(compute)(places.map((i) => inputs[i] as tf.Tensor));
      for (const [i, gradient] of found.entries()) {
        const { s } = specs[places[i] ?? 0] as Written;
        if (String(gradient.shape) !== String(s))
          difference = `gradient ${i} is [${gradient.shape}], not [${s}]`;
      }
    } catch (error) {
      difference = `throws ${String(error)}`;
    }
  });
  return difference;
}

/** Each call reads only the arguments that its rows have. */
function argumentsOf({ a = {} }: Row): CallArguments {
  return a as CallArguments;
}

function gradientDifference(
  { in: specs, g, tol }: Row,
  inputs: readonly tf.Tensor[],
  run: (inputs: readonly tf.Tensor[]) => tf.Tensor,
): string | null {
  if (g === undefined) return null;
  const places = specs.flatMap(({ t }, i) => (t === 'f' ? [i] : []));
  const compute = (...floats: tf.Tensor[]): tf.Tensor =>
    run(inputs.map((input, i) => floats[places.indexOf(i)] ?? input));
  const out = run(inputs);
  const upstream = tf.tensor(
    Float32Array.from({ length: out.size }, (_, k) => (((37 * k) % 11) - 5) / 4),
    out.shape,
  );
  let found: tf.Tensor[];
  try {
    found = tf.grads(compute)(
      places.map((i) => inputs[i] as tf.Tensor),
      upstream,
    );
  } catch (error) {
    return `gradient throws ${String(error)}`;
  }
  for (const [i, values] of g.entries()) {
    const { s = [] } = specs[places[i] ?? 0] ?? {};
    if (values === null) continue;
    // Where an input is NaN, NaN is right too: torch masks some gradients without looking at the input's value.
    const input = inputs[places[i] ?? 0]?.dataSync() ?? [];
    const wanted = values.map((value, k) =>
      Number.isNaN(input[k]) && Number.isNaN(found[i]?.dataSync()[k]) ? 'N' : value,
    );
    const difference = differenceOf(found[i], { t: 'f', s: [...s], v: wanted }, tol);
    if (difference !== null) return `gradient of input ${places[i]} ${difference}`;
  }
  return null;
}

/** Relative error of float32 results. */
const TOLERANCE = 2e-6;

function differenceOf(
  actual: tf.Tensor | undefined,
  { t, s, v = [], every = 1 }: Written,
  tolerance = TOLERANCE,
): string | null {
  if (actual === undefined) return 'is missing';
  if (actual.dtype !== TYPES[t] || String(actual.shape) !== String(s))
    return `is ${told(actual)}, not ${TYPES[t]} [${s}]`;
  const all = actual.dataSync();
  const expected = v.map(number);
  const scale = Math.min(
    1,
    expected.reduce((most, x) => (Number.isFinite(x) ? Math.max(most, Math.abs(x)) : most), 0),
  );
  for (const [k, right] of expected.entries()) {
    const value = all[k * every] as number;
    if (Object.is(value, right) || value === right || (Number.isNaN(value) && Number.isNaN(right))) continue;
    if (t === 'f' && Math.abs(value - right) <= tolerance * Math.max(Math.abs(right), scale)) continue;
    return `has ${Object.is(value, -0) ? '-0' : value} at ${k * every}, not ${right}`;
  }
  return null;
}

function told(tensor: tf.Tensor): string {
  const values = tensor.size > 8 ? '' : ` ${[...tensor.dataSync()]}`;
  return `${tensor.dtype} [${tensor.shape}]${values}`;
}
