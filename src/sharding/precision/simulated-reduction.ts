import { HALF_FORMATS, type HalfDType, type Random, roundValues, seeded } from '../../core';

/**
 * When sums are rounded: at the end ('float32', as in our collectives), or after each addition ('wire', as in a ring with 16
 * bits).
 */
export type Accumulation = 'float32' | 'wire';

/**
 * 'normal' has standard deviation 1. 'logNormal' has random signs and median magnitude 1; the logarithm (ln) of the magnitude
 * has standard deviation 2.
 */
export type GradientDistribution = 'normal' | 'logNormal';

/** A synthetic gradient: its number of elements, distribution and seed. */
export interface GradientSample {
  readonly size: number;
  readonly distribution: GradientDistribution;
  readonly seed: number;
}

/** Generates one rank's gradient, at scale 1; the values are the same on every machine. */
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
 * Computes the mean of contributions that are sent in 16 bits. 'float32' rounds each contribution, adds in rank order in
 * float32, divides, and rounds, exactly as our collectives do. 'wire' also rounds after each addition.
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
  /** The largest |approximate − exact| / |exact| of all elements; this error is large if contributions cancel each other. */
  readonly maxRelativeError: number;
  /** An upper bound of `relativeError`; see [Note: bound of a reduction]. */
  readonly bound: number;
  /** The number of the result's elements that are not finite. */
  readonly overflowed: number;
  /** The fraction of the nonzero contributions that became 0 when they were sent. */
  readonly underflowedShare: number;
}

/**
 * Compares a reduced mean with the exact mean, which is computed in float64 (relative error of an addition: 2^-53).
 *
 * [Note: bound of a reduction] Let u be the unit roundoff (2^-8 for bfloat16, 2^-11 for float16), η half of the smallest
 * subnormal, N the number of ranks, m the exact mean of one element, and a = (1/N) Σ|x_i|. Rounding x has an error of at
 * most u|x| + η. So the contributions' error is at most u·a + η; the error of the sums and the division is at most
 * N · 2^-24 · (1 + u) · (a + η) in float32, and ((1 + u)^N - 1) · (a + η) in 16 bits. Let e be the sum of both;
 * rounding the mean adds u(|m| + e) + η. The norm of all elements' bounds, divided by the norm of the exact mean, bounds
 * `relativeError`. If η is negligible, this bound is about u (1 + κ) with κ = ‖a‖ / ‖m‖. Source: Higham 2002, sections 2.2 and
 * 4.2.
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

/** Returns the bound of one element's error; see [Note: bound of a reduction]. */
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
