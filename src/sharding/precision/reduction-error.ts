import { count, index, listOf, type OptionKind, type OptionKinds, oneOf, requireOptions } from '../../config';
import {
  ConfigError,
  HALF_FORMATS,
  type HalfDType,
  isWhole,
  type Random,
  roundValues,
  seeded,
} from '../../core';
import * as tf from '../../core/tf';
import type { Engine } from '../../engine';
import type { ProcessGroup } from '../../wire';

/** The settings of the reductions that are compared with exact means; each combination of the settings gives one row. */
export interface ReductionErrorOptions {
  /** The dtypes in which gradients are sent. Default: both. */
  readonly dtypes?: readonly HalfDType[];
  /** Numbers of elements of the gradient. Default: 4,096; with real ranks also 65,536. */
  readonly sizes?: readonly number[];
  /** Typical magnitudes of the gradient's values. Default 1, 1e-3, 1e-6, 1e-8. */
  readonly scales?: readonly number[];
  /** Numbers of ranks. Default: all ranks; for a simulation 2, 4, 8 and 64. */
  readonly worlds?: readonly number[];
  /** Distributions of the gradient's values. Default: normal. */
  readonly distributions?: readonly GradientDistribution[];
  /** Factors by which the loss is multiplied, as by a GradScaler. Default 1. */
  readonly lossScales?: readonly number[];
  /** The seed of the gradients. Default 0. */
  readonly seed?: number;
}

/** The settings of one reduction, and its error. */
export interface ReductionErrorRow extends ReductionErrorMeasure {
  readonly dtype: HalfDType;
  readonly accumulation: Accumulation;
  readonly world: number;
  readonly size: number;
  readonly distribution: GradientDistribution;
  readonly scale: number;
  readonly lossScale: number;
}

const POSITIVE: OptionKind = {
  words: 'a number above 0',
  accepts: (value) => typeof value === 'number' && value > 0 && Number.isFinite(value),
};

const OPTIONS: OptionKinds<ReductionErrorOptions> = {
  dtypes: listOf(oneOf('float16', 'bfloat16')),
  sizes: listOf(count),
  scales: listOf(POSITIVE),
  worlds: listOf(count),
  distributions: listOf(oneOf('normal', 'logNormal')),
  lossScales: listOf(POSITIVE),
  seed: index,
};

type Case = Omit<ReductionErrorRow, keyof ReductionErrorMeasure>;

/**
 * Magnitudes that occur in practice: magnitudes of a gradient's norm, magnitudes of single elements, and magnitudes that
 * float16 cannot represent without a loss scale.
 */
const SCALES = [1, 1e-3, 1e-6, 1e-8] as const;
const SIZES = [4096, 65_536] as const;

/**
 * Reduces synthetic gradients over real ranks, with 16 bits on the wire, and compares each mean with the exact mean. All ranks
 * of the group must call this function. A rank gets rows only for the worlds to which it belongs; rank 0 gets all rows.
 * Throws: CONFIG for a world that is larger than the group.
 */
export function reductionError(
  engine: Engine,
  group: ProcessGroup,
  options: ReductionErrorOptions = {},
): ReductionErrorRow[] {
  requireOptions('reductionError', options, OPTIONS);
  const { worlds = [group.size] } = options;
  return worlds.flatMap((world) => {
    const ranks = subgroupOf(group, world);
    if (ranks === null) return [];
    return compared(options, world, ['float32'], (contributions, { dtype }) =>
      reduceOverRanks(engine, ranks, contributions[ranks.rank] ?? new Float32Array(), dtype),
    );
  });
}

/**
 * Simulates `reductionError` in one process, for any number of ranks. The simulation also has rows with sums that are rounded
 * after each addition. Rows of 'float32' equal the rows of `reductionError`, to the bit.
 */
export function simulateReductionError(options: ReductionErrorOptions = {}): ReductionErrorRow[] {
  requireOptions('reductionError', options, OPTIONS);
  const { worlds = [2, 4, 8, 64], sizes = [4096] } = options;
  return worlds.flatMap((world) =>
    compared({ ...options, sizes }, world, ['float32', 'wire'], (contributions, { dtype, accumulation }) =>
      reduceOnWire(contributions, dtype, accumulation),
    ),
  );
}

/** Returns a row per combination of options; `reduce` returns the mean of all ranks' gradients. */
function compared(
  options: ReductionErrorOptions,
  world: number,
  accumulations: readonly Accumulation[],
  reduce: (contributions: readonly Float32Array[], reduced: Case) => Float32Array,
): ReductionErrorRow[] {
  const { sizes = SIZES, distributions = ['normal'], seed = 0 } = options;
  return sizes.flatMap((size) =>
    distributions.flatMap((distribution) => {
      const units = Array.from({ length: world }, (_, rank) =>
        sampleGradient({ size, distribution, seed }, rank),
      );
      return wiresOf(options, accumulations).map((wire) => {
        const reduced: Case = { ...wire, world, size, distribution };
        // The mean need not be divided by the loss scale, because errors are relative.
        const factor = wire.scale * wire.lossScale;
        const contributions = units.map((unit) => unit.map((value) => factor * value));
        const mean = reduce(contributions, reduced);
        return { ...reduced, ...measureReduction(mean, contributions, wire.dtype, wire.accumulation) };
      });
    }),
  );
}

function wiresOf(
  { dtypes = ['float16', 'bfloat16'], scales = SCALES, lossScales = [1] }: ReductionErrorOptions,
  accumulations: readonly Accumulation[],
): Pick<Case, 'dtype' | 'accumulation' | 'scale' | 'lossScale'>[] {
  return dtypes.flatMap((dtype) =>
    accumulations.flatMap((accumulation) =>
      scales.flatMap((scale) => lossScales.map((lossScale) => ({ dtype, accumulation, scale, lossScale }))),
    ),
  );
}

function subgroupOf(group: ProcessGroup, world: number): ProcessGroup | null {
  if (world === group.size) return group;
  if (isWhole(world, 1) && world < group.size) {
    return group.subgroup(Array.from({ length: world }, (_, rank) => rank));
  }
  throw new ConfigError(
    `worlds has ${world}, but the group has ${group.size} ranks; launch ${world} ranks, or use simulateReductionError`,
  );
}

function reduceOverRanks(
  engine: Engine,
  group: ProcessGroup,
  own: Float32Array,
  wireDType: HalfDType,
): Float32Array {
  const tensor = engine.tagged({ cause: 'comm', module: '' }, () => tf.tensor1d(own));
  try {
    group.allReduce(tensor, 'avg', { wireDType }).wait();
    return tensor.dataSync<'float32'>().slice();
  } finally {
    tensor.dispose();
  }
}

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
function sampleGradient({ size, distribution, seed }: GradientSample, rank: number): Float32Array {
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
