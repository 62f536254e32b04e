import { STRATEGIES, type StrategyName } from '../config';
import type { Bytes, MemoryCause } from '../core';
import { GPUS, type GpuName, hardwareOf, modelOf, PRICES, shapeOf } from '../planner';
import { simulateReductionError } from '../sharding';
import { ringCost } from '../wire';
import { ACCELERATE_FORMULAS } from './accelerate-multinode/formulas';
import type { Functions } from './expression';
import { guideFormulas } from './fsdp-guide/formulas';
import { swiftFormulas } from './fsdp-megatron-swift/formulas';
import type { PlanLab } from './lab';
import { ZERO3_FORMULAS } from './wan-deepspeed-zero3/formulas';
import { wanFormulas } from './wan22-fsdp/formulas';

/** Returns the functions that the expressions of claims may call. Functions for one document are in the document's folder. */
export function formulasOf(lab: PlanLab): Functions {
  return {
    ...GENERAL,
    ...wanFormulas(lab),
    ...guideFormulas(lab),
    ...ZERO3_FORMULAS,
    ...ACCELERATE_FORMULAS,
    ...swiftFormulas(lab),
  };
}

const STATES: Readonly<Record<string, readonly MemoryCause[]>> = {
  parameters: ['param.full', 'param.shard'],
  gradients: ['grad.full', 'grad.shard'],
  optimizer: ['optimizer'],
};

function perParameter(state: string, strategy: StrategyName, world: number): number {
  return bytesOf(modelStates(1e9, strategy, world), STATES[state] ?? []) / 1e9;
}

const GENERAL: Functions = {
  /** GB of fp32 states with Adam on one of `world` ranks. */
  stateGB: (params: number, strategy: StrategyName, world: number) =>
    modelStates(params, strategy, world).stateBytes / 1e9,
  /** Wire bytes of a step divided by the wire bytes of a DDP step. */
  volume: volumeAgainstDdp,
  /** Bytes of a state per parameter on one of `world` ranks. */
  perParameter,
  /** By how many percent a GPU has fewer bytes of a state under FULL_SHARD than under DDP. */
  saved: (state: string, world: number) =>
    100 * (1 - perParameter(state, 'FULL_SHARD', world) / perParameter(state, 'NO_SHARD', world)),
  /** The number of GPUs, at most 64, on which sharding saves `percent` of the bytes; 0: on no number of GPUs. */
  gpusThatSave: (percent: number) =>
    Array.from({ length: 64 }, (_, i) => i + 1).find(
      (world) => Math.abs(100 * (1 - 1 / world) - percent) < 0.1,
    ) ?? 0,
  /** The number of a model's parameters. */
  params: (model: string) => shapeOf(modelOf(model)).params,
  /** The number of parameters of one of a model's experts: all parameters divided by the number of experts. */
  expertParams: (model: string) => shapeOf(modelOf(model)).params / shapeOf(modelOf(model)).experts,
  /** GiB of a GPU's memory. */
  memoryGB: (gpu: GpuName) => GPUS[gpu].memoryGB,
  /** GB per second per GPU within a node, in one direction. */
  linkGBps: (gpu: GpuName) => hardwareOf(gpu).linkGBps,
  /** Gbit per second per GPU between nodes. */
  nicGbit: (gpu: GpuName) => hardwareOf(gpu).nicGbit,
  /** TB per second between a GPU and its memory. */
  hbmTBps: (gpu: GpuName) => GPUS[gpu].hbmTBps,
  /** The number of known GPUs. */
  numGpus: () => Object.keys(GPUS).length,
  /** The number of known GPUs with less than `gigabytes` of memory. */
  numGpusBelow: (gigabytes: number) =>
    Object.values(GPUS).filter(({ memoryGB }) => memoryGB < gigabytes).length,
  /** US dollars per hour of a GPU. */
  usdPerHour: (gpu: keyof typeof PRICES) => PRICES[gpu].usdPerHour,
  /** The date of that price. */
  priceDate: (gpu: keyof typeof PRICES) => PRICES[gpu].date,
  /** Percentage of the time in which stages are idle. Source: Narayanan et al. 2021, section 2.2. */
  bubble: (stages: number, microbatches: number) => (100 * (stages - 1)) / (microbatches + stages - 1),
  /** The rounds of a ring, in each of which every rank sends one message. */
  ringRounds: (op: 'allReduce' | 'allGather' | 'reduceScatter', world: number) =>
    ringCost({ op, wireDType: 'float32', inputs: [world], outputs: [world] }, 0, world).steps,
  /** Largest error of a mean, in percent of the exact mean, if the wire is fp16 and sums are rounded at every hop. */
  fp16Error: (scale: number, lossScale: number, world: number) => {
    const grid = { sizes: [1024], scales: [scale], lossScales: [lossScale] };
    const rows = simulateReductionError({ dtypes: ['float16'], worlds: [world], ...grid });
    return 100 * Math.max(...rows.map(({ relativeError }) => relativeError));
  },
};

/** Model states of one rank in float32 with Adam, and the bytes that the rank receives in a step. */
export interface ModelStates {
  readonly states: readonly { readonly cause: MemoryCause; readonly bytes: Bytes }[];
  readonly stateBytes: Bytes;
  readonly wireBytes: { readonly param: Bytes; readonly grad: Bytes };
}

/**
 * Returns what one of `world` ranks holds and receives if the model is one unit. Source: Rajbhandari et al. 2020, "ZeRO: Memory
 * Optimizations Toward Training Trillion Parameter Models", sections 5 and 7.
 */
function modelStates(numParams: number, strategy: StrategyName, world: number): ModelStates {
  const { shardedAtRest, reshardAfterForward } = STRATEGIES[strategy];
  const [whole, shard] = [4 * numParams, (4 * numParams) / world];
  const shards = (state: (typeof shardedAtRest)[number]): boolean => shardedAtRest.includes(state);
  const states = [
    shards('parameter')
      ? ({ cause: 'param.shard', bytes: shard } as const)
      : ({ cause: 'param.full', bytes: whole } as const),
    shards('gradient')
      ? ({ cause: 'grad.shard', bytes: shard } as const)
      : ({ cause: 'grad.full', bytes: whole } as const),
    { cause: 'optimizer', bytes: 2 * (shards('optimizer') ? shard : whole) } as const,
  ];
  const passed = shard * (world - 1); // received in one all-gather or reduce-scatter of the whole model
  const isSharded = shardedAtRest.length > 0;
  return {
    states,
    stateBytes: states.reduce((sum, { bytes }) => sum + bytes, 0),
    wireBytes: {
      param: isSharded ? passed * (shards('parameter') && reshardAfterForward ? 2 : 1) : 0,
      grad: isSharded ? passed : 2 * passed,
    },
  };
}

/** Returns the bytes of the states with these causes. */
function bytesOf({ states }: ModelStates, causes: readonly MemoryCause[]): Bytes {
  return states.reduce((sum, { cause, bytes }) => (causes.includes(cause) ? sum + bytes : sum), 0);
}

/** Returns the wire bytes of a step divided by the wire bytes of a DDP step. */
function volumeAgainstDdp(strategy: StrategyName, world: number): number {
  return received(modelStates(1e9, strategy, world)) / received(modelStates(1e9, 'NO_SHARD', world));
}

function received({ wireBytes }: ModelStates): Bytes {
  return wireBytes.param + wireBytes.grad;
}
