import { parseTrainConfig } from '../../config';
import { ConfigError, HALF_FORMATS, roundValues } from '../../core';
import { buildModel } from '../../nn';
import { layoutOf, type PlanObject, type Prediction } from '../../planner';
import { planUnits } from '../../sharding';
import { requestNamed } from '../claim';
import type { Functions } from '../expression';
import type { PlanLab } from '../lab';

/** A matrix as a list of rows. */
type Matrix = readonly (readonly number[])[];

/** Two rows of d = 2, and a layer from d to 4d and back. All values are integers, so that sums are exact. */
const X: Matrix = [
  [1, -2],
  [3, 4],
];
const UP: Matrix = [
  [1, 0, -1, 2, 3, -2, 1, 1],
  [2, 1, 0, -1, 1, 2, -3, 0],
];
const DOWN: Matrix = (UP[0] ?? []).map((_, i) => UP.map((row) => (row[i] ?? 0) + i));

/** The halves of a layer that is split by columns and then by rows, on two ranks. */
const HALVES = [0, 1].map((rank) => {
  const up = multiply(
    X,
    UP.map((row) => row.slice(4 * rank, 4 * rank + 4)),
  );
  return { up, out: multiply(relu(up), DOWN.slice(4 * rank, 4 * rank + 4)) };
});

/**
 * Returns the largest difference between a whole output and the output of two ranks. The outputs of a split by columns are
 * concatenated; those of a split by rows are summed.
 */
function differenceOfParts(split: 'columns' | 'rows'): number {
  const [first, second] = HALVES as [(typeof HALVES)[number], (typeof HALVES)[number]]; // two ranks
  if (split === 'rows') {
    return difference(
      multiply(relu(multiply(X, UP)), DOWN),
      combined(first.out, second.out, (a, b) => a.map((each, i) => each + (b[i] ?? 0))),
    );
  }
  return difference(
    multiply(X, UP),
    combined(first.up, second.up, (a, b) => [...a, ...b]),
  );
}

function combined(
  a: Matrix,
  b: Matrix,
  rows: (a: readonly number[], b: readonly number[]) => readonly number[],
): Matrix {
  return a.map((row, i) => rows(row, b[i] ?? []));
}

function difference(a: Matrix, b: Matrix): number {
  return Math.max(
    ...a.flatMap((row, i) => row.map((value, j) => Math.abs(value - (b[i]?.[j] ?? Number.NaN)))),
  );
}

function multiply(a: Matrix, b: Matrix): Matrix {
  return a.map((row) =>
    (b[0] ?? []).map((_, j) => row.reduce((total, value, k) => total + value * (b[k]?.[j] ?? 0), 0)),
  );
}

function relu(a: Matrix): Matrix {
  return a.map((row) => row.map((value) => Math.max(0, value)));
}

const ANY: Degrees = { tp: [1, 2, 4, 8], pp: [1, 2, 4, 8] };
const ADVISED: Degrees = { tp: [2, 4], pp: [2, 4] };
const QWEN: Case = { model: { like: 'qwen-14b', seq: 2048 }, gpus: 8, globalBatch: 256 };
const SEVENTY: Case = { model: { like: 'llama3-70b', seq: 4096 }, gpus: 64, globalBatch: 512 };
const LARGE: Case = { model: 'gpt3-175b', gpus: 128, globalBatch: 512 };
const WINNERS: readonly Case[] = [
  { model: 'gpt2-xl', gpus: 8, globalBatch: 512 },
  { model: { like: 'llama3-8b', seq: 4096 }, gpus: 64, globalBatch: 256 },
  QWEN,
  SEVENTY,
];

/** Returns the functions of "FSDP and Megatron through ms-swift". */
export function swiftFormulas(lab: PlanLab): Functions {
  return { ...FIXED, ...searches(lab) };
}

const FIXED: Functions = {
  /** A value after it is rounded to a type, and the largest value of a type. */
  rounded: (value: number, dtype: 'float16' | 'bfloat16') => {
    const values = new Float32Array([value]);
    roundValues(values, dtype);
    return values[0] ?? Number.NaN;
  },
  largestOf: (dtype: 'float16' | 'bfloat16') => HALF_FORMATS[dtype].largest,
  /** The number of a model's units if each unit has at least `wrap` parameters, or if each linear layer is a unit. */
  numUnits: (model: 'qwen-7b' | 'gpt2-xl', wrap: number | 'linear') => {
    const config = parseTrainConfig({
      model,
      parallel: { wrap: wrap === 'linear' ? wrap : { minNumParams: wrap } },
    });
    return planUnits(buildModel(config), config.parallel).filter(({ parameters }) => parameters.length > 0)
      .length;
  },
  differenceOfParts,
  /** The number of degrees of tensor parallelism from 2 to 8 that can divide GPT-2 XL, and the least of these degrees. */
  numDegrees: () => degrees().length,
  leastDegree: () => degrees()[0] ?? 0,
  /** The number of replicas of TP x PP ranks on a number of GPUs. */
  numReplicas: (tp: number, pp: number, gpus: number) =>
    layoutOf({
      ...requestNamed('fsdp-megatron-swift', 'qwen14b'),
      gpus,
      ...{ batch: 1, parallel: { tp, pp, strategy: 'NO_SHARD' } },
    }).dp,
  /** Tensors that cross the middle of a chain of nine nodes, and of a U-Net: a chain with a skip from each level. */
  crossingChain: () => crossing(CHAIN, 4),
  crossingUNet: () => crossing([...CHAIN, ...SKIPS], 3),
};

/** Returns functions that search for the fastest layout. */
function searches(lab: PlanLab): Functions {
  const fastest = (of: Case): Fastest | undefined => {
    const [data, model] = [fastestDataParallel(lab, of), fastestMegatron(lab, of, ANY)];
    return secondsOf(data) < secondsOf(model) ? data : model;
  };
  const winners = (): string[] => WINNERS.map((each) => nameOf(fastest(each)));
  return {
    /** By how many percent the advised degrees are slower than the fastest layout; the maximum of three cases. */
    advisedSlower: () =>
      Math.max(
        ...[QWEN, { ...QWEN, gpus: 64, globalBatch: 512 }, SEVENTY].map((each) =>
          percentSlower(fastestMegatron(lab, each, ADVISED), fastest(each)),
        ),
      ),
    /** The least number of GPUs on which 175B fits with TP and PP alone. */
    leastGpus: () =>
      [16, 32, 64, 128].find((gpus) => fastestMegatron(lab, { ...LARGE, gpus }, ANY) !== undefined) ?? 0,
    /** By how many percent the request 'qwen14b' is slower than the best layout of FSDP. */
    slowerThanSharded: () => {
      const request = requestNamed('fsdp-megatron-swift', 'qwen14b');
      const sharded = fastestDataParallel(lab, { ...QWEN, globalBatch: 64 });
      return percentSlower({ request, prediction: lab.predict(request) }, sharded);
    },
    numWinners: () => new Set(winners()).size,
    winners: () => winners().join('; '),
  };
}

function nameOf(of: Fastest | undefined): string {
  if (of === undefined) return 'none';
  const { tp = 1, pp = 1, strategy = 'FULL_SHARD' } = of.request.parallel ?? {};
  return tp * pp === 1 ? strategy : `TP ${tp} x PP ${pp}`;
}

/** A U-Net of four levels: a chain of nine nodes, and a skip from each level down to the same level up. */
const CHAIN = Array.from({ length: 8 }, (_, i) => [i, i + 1] as const);
const SKIPS = [0, 1, 2, 3].map((level) => [level, 8 - level] as const);

/** Returns the number of tensors that cross a cut after `stage`; edges go from a node's number to a larger one. */
function crossing(edges: readonly (readonly [from: number, to: number])[], stage: number): number {
  return edges.filter(([from, to]) => from <= stage && to > stage).length;
}

function degrees(): number[] {
  return [2, 3, 4, 5, 6, 7, 8].filter((tp) => {
    try {
      layoutOf({ model: 'gpt2-xl', gpus: tp, gpusPerNode: tp, parallel: { tp, strategy: 'NO_SHARD' } });
      return true;
    } catch (error) {
      if (error instanceof ConfigError) return false;
      throw error;
    }
  });
}

/** A model, its GPUs and its batch, which is the same for every compared layout. */
export interface Case {
  readonly model: NonNullable<PlanObject['model']>;
  readonly gpus: number;
  readonly globalBatch: number;
  readonly hardware?: PlanObject['hardware'];
  readonly nicGbit?: number;
  readonly gpusPerNode?: number;
}

/** A layout that fits, and its prediction. */
export interface Fastest {
  readonly request: PlanObject;
  readonly prediction: Prediction;
}

/** Degrees of tensor and pipeline parallelism to try; data parallelism gets the rest of the GPUs. */
export interface Degrees {
  readonly tp: readonly number[];
  readonly pp: readonly number[];
}

const MICRO = [1, 2, 4];
const RECOMPUTE = [null, 'selective', 'full'] as const;
const SHARDED = ['SHARD_GRAD_OP', 'FULL_SHARD', 'HYBRID_SHARD'] as const;

/** Returns the fastest layout of FSDP and DDP alone, over strategies, microbatches and recompute. */
function fastestDataParallel(
  lab: PlanLab,
  of: Case,
  strategies: readonly ((typeof SHARDED)[number] | 'NO_SHARD')[] = ['NO_SHARD', ...SHARDED],
): Fastest | undefined {
  const requests = strategies.flatMap((strategy) =>
    ways(of, 1).map(({ micro, passes, ...way }) => ({
      ...way,
      ...{ batch: micro, accumulation: passes },
      stack: 'fsdp2' as const,
      parallel: { strategy },
    })),
  );
  return fastestOf(lab, requests);
}

/** Returns the fastest layout of Megatron-LM, with its optimizer sharded over the data-parallel ranks. */
function fastestMegatron(lab: PlanLab, of: Case, { tp, pp }: Degrees): Fastest | undefined {
  const requests = tp.flatMap((tensor) =>
    pp.flatMap((pipeline) =>
      ways(of, tensor * pipeline).map(({ micro, passes, ...way }) => ({
        ...way,
        ...(pipeline === 1 ? { batch: micro, accumulation: passes } : { batch: micro * passes }),
        stack: 'megatron' as const,
        parallel: {
          tp: tensor,
          pp: pipeline,
          ...(pipeline > 1 && { microbatches: passes }),
          sequenceParallel: tensor > 1,
          strategy: 'ZERO_1' as const,
        },
      })),
    ),
  );
  return fastestOf(lab, requests);
}

/** Returns by how many percent a layout takes longer than a base; infinite if the layout does not fit. */
function percentSlower(layout: Fastest | undefined, base: Fastest | undefined): number {
  const [mine, its] = [secondsOf(layout), secondsOf(base)];
  return 100 * (mine / its - 1);
}

function secondsOf(layout: Fastest | undefined): number {
  return layout?.prediction.seconds.value ?? Number.POSITIVE_INFINITY;
}

/** A case with a microbatch and a recompute; `passes` is the number of microbatches of a data-parallel rank. */
type Way = PlanObject & { readonly micro: number; readonly passes: number };

function ways(
  { model, gpus, globalBatch, hardware = 'A100-80G', nicGbit, gpusPerNode }: Case,
  modelRanks: number,
): Way[] {
  const dp = gpus / modelRanks;
  if (!Number.isInteger(dp)) return [];
  return MICRO.filter((micro) => globalBatch % (dp * micro) === 0).flatMap((micro) =>
    RECOMPUTE.map((activationCheckpointing) => ({
      ...{ model, hardware, gpus, activationCheckpointing, micro, passes: globalBatch / (dp * micro) },
      ...(nicGbit === undefined ? {} : { nicGbit }),
      ...(gpusPerNode === undefined ? {} : { gpusPerNode }),
    })),
  );
}

function fastestOf(lab: PlanLab, requests: readonly PlanObject[]): Fastest | undefined {
  let best: Fastest | undefined;
  for (const request of requests) {
    const prediction = legal(lab, request);
    if (prediction === undefined || !prediction.fits) continue;
    if (prediction.seconds.value < secondsOf(best)) best = { request, prediction };
  }
  return best;
}

/** Returns a prediction; undefined if heads, layers or ranks do not divide. */
function legal(lab: PlanLab, request: PlanObject): Prediction | undefined {
  try {
    return lab.predict(request);
  } catch (error) {
    if (error instanceof ConfigError) return undefined;
    throw error;
  }
}
