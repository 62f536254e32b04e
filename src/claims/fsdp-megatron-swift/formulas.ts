import { parseTrainConfig } from '../../config';
import { ConfigError, HALF_FORMATS, roundValues } from '../../core';
import { buildModel } from '../../nn';
import { layoutOf } from '../../planner';
import { planUnits } from '../../sharding';
import { requestNamed } from '../claim';
import type { Functions } from '../expression';
import type { PlanLab } from '../lab';
import {
  type Case,
  type Degrees,
  type Fastest,
  fastestDataParallel,
  fastestMegatron,
  percentSlower,
  secondsOf,
} from './fastest';
import { differenceOfParts } from './split-layer';

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
