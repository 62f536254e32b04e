import type { HalfDType } from '../../core/dtypes';
import { type Random, seeded } from '../../core/random';
import { HALF_FORMATS, roundValues } from '../../core/rounding';

/** Where sums are rounded: once at the end, as here, or after every hop, as in a ring that adds in the wire's type. */
export type Accumulation = 'float32' | 'wire';

/** Normal: standard deviation 1. Log-normal: median size 1, sizes spread over decades (sigma 2 in ln), random signs. */
export type GradientDistribution = 'normal' | 'logNormal';

/** Which gradients are reduced. */
export interface GradientSample {
  readonly size: number;
  readonly distribution: GradientDistribution;
  readonly seed: number;
}

/** One rank's generated gradient, at scale 1: the same on every machine. */
export function sampleGradient({ size, distribution, seed }: GradientSample, rank: number): Float32Array {
  const random = seeded(seed, 'gradient', rank, size, distribution);
  const draw = distribution === 'normal' ? () => random.normal() : () => logNormal(random);
  const values = new Float32Array(size);
  for (let i = 0; i < size; i++) values[i] = draw();
  return values;
}

const LOG_NORMAL_SIGMA = 2;

function logNormal(random: Random): number {
  const size = Math.exp(LOG_NORMAL_SIGMA * random.normal());
  return random.uniform() < 0.5 ? -size : size;
}

/**
 * The mean of contributions over a 16-bit wire. 'float32' rounds every contribution, adds in rank order in float32,
 * divides, and rounds, as our collectives do, bit for bit. 'wire' also rounds after every addition.
 */
export function reduceOnWire(
  contributions: readonly Float32Array[],
  dtype: HalfDType,
  accumulation: Accumulation,
): Float32Array {
  const [first = new Float32Array(), ...others] = contributions.map((values) => roundedTo(values, dtype));
  const sum = first;
  for (const values of others) {
    for (let i = 0; i < sum.length; i++) sum[i] = (sum[i] ?? 0) + (values[i] ?? 0);
    if (accumulation === 'wire') roundValues(sum, dtype);
  }
  const world = contributions.length;
  for (let i = 0; i < sum.length; i++) sum[i] = (sum[i] ?? 0) / world;
  roundValues(sum, dtype);
  return sum;
}

function roundedTo(values: Float32Array, dtype: HalfDType): Float32Array {
  const copy = values.slice();
  roundValues(copy, dtype);
  return copy;
}

/** The error of a reduction's result. */
export interface ReductionErrorMeasure {
  /** ‖approximate − exact‖ / ‖exact‖; infinite if a value overflowed. */
  readonly relativeError: number;
  /** Largest |approximate − exact| / |exact| of one element; large if contributions cancel. */
  readonly maxRelativeError: number;
  /** Upper bound of relativeError, from the format alone. [Note: bound of a reduction] */
  readonly bound: number;
  /** Elements of the result that are not finite. */
  readonly overflowed: number;
  /** Share of contributions other than 0 that became 0 on the wire. */
  readonly underflowedShare: number;
}

/**
 * Compares a reduced mean with the exact one, computed in float64: sums of 24-bit numbers are exact to 2^-52.
 *
 * [Note: bound of a reduction] With u the unit roundoff (2^-8 for bfloat16, 2^-11 for float16) and η half of the smallest
 * subnormal, rounding x is off by at most u|x| + η. With a = (1/N) Σ|x_i| for one element of N ranks:
 * contributions are off by u·a + η; N sums and the division in float32 by N · 2^-24 · (1 + u) · a, in the wire's type instead
 * by ((1 + u)^N - 1) · (a + η); rounding the mean m by u(|m| + what came before) + η. The norm of all elements' bounds over the
 * norm of the exact mean bounds relativeError. Where η does not count it is about u (1 + κ), with κ = ‖a‖ / ‖m‖: contributions
 * that cancel cost more. Source: Higham 2002, sections 2.2 and 4.2.
 */
export function measureReduction(
  approximate: Float32Array,
  contributions: readonly Float32Array[],
  dtype: HalfDType,
  accumulation: Accumulation,
): ReductionErrorMeasure {
  const world = contributions.length;
  let [errors, exacts, bounds, largest, overflowed] = [0, 0, 0, 0, 0];
  for (let i = 0; i < approximate.length; i++) {
    let [sum, size] = [0, 0];
    for (const values of contributions) {
      const value = values[i] ?? 0;
      sum += value;
      size += Math.abs(value);
    }
    const exact = sum / world;
    const value = approximate[i] ?? Number.NaN;
    if (!Number.isFinite(value)) overflowed++;
    const error = Math.abs(value - exact);
    errors += error * error;
    exacts += exact * exact;
    bounds += elementBound(Math.abs(exact), size / world, { world, dtype, accumulation }) ** 2;
    if (exact !== 0) largest = Math.max(largest, error / Math.abs(exact));
  }
  return {
    relativeError: overflowed > 0 ? Number.POSITIVE_INFINITY : Math.sqrt(errors / exacts),
    maxRelativeError: overflowed > 0 ? Number.POSITIVE_INFINITY : largest,
    bound: Math.sqrt(bounds / exacts),
    overflowed,
    underflowedShare: underflowedShare(contributions, dtype),
  };
}

interface Reducing {
  readonly world: number;
  readonly dtype: HalfDType;
  readonly accumulation: Accumulation;
}

/** [Note: bound of a reduction] */
function elementBound(mean: number, size: number, { world, dtype, accumulation }: Reducing): number {
  const { unitRoundoff: u, smallestSubnormal } = HALF_FORMATS[dtype];
  const eta = smallestSubnormal / 2;
  const contributions = u * size + eta;
  const sums =
    accumulation === 'float32'
      ? world * 2 ** -24 * (1 + u) * (size + eta)
      : ((1 + u) ** world - 1) * (size + eta);
  const before = contributions + sums;
  return before + u * (mean + before) + eta;
}

function underflowedShare(contributions: readonly Float32Array[], dtype: HalfDType): number {
  let [present, lost] = [0, 0];
  for (const values of contributions) {
    const onWire = roundedTo(values, dtype);
    values.forEach((value, i) => {
      if (value === 0) return;
      present++;
      if (onWire[i] === 0) lost++;
    });
  }
  return present === 0 ? 0 : lost / present;
}
