import { count, index, listOf, type OptionKind, type OptionKinds, oneOf, requireOptions } from '../../config';
import { ConfigError, type HalfDType, isWhole } from '../../core';
import * as tf from '../../core/tf';
import type { Engine } from '../../engine';
import type { ProcessGroup } from '../../wire';
import {
  type Accumulation,
  type GradientDistribution,
  measureReduction,
  type ReductionErrorMeasure,
  reduceOnWire,
  sampleGradient,
} from './simulated-reduction';

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
