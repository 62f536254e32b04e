import type { StrategyName } from '../config/parallel-config';
import type { MemoryCause } from '../core/events';
import type { Bytes } from '../core/units';

/** What is cut over the ranks. */
export type ZeroStrategy = StrategyName;

/** Parameters that are gathered and reduced together. */
export interface ZeroUnit {
  readonly name: string;
  readonly numParams: number;
  /** Elements added so that all ranks' shards are equal. Default 0. */
  readonly padding?: number;
  /** The unit stays whole from forward to backward (FSDP's root): it is gathered once a step. */
  readonly staysWhole?: boolean;
}

export interface ZeroQuestion {
  readonly units: readonly ZeroUnit[];
  readonly world: number;
  readonly strategy: ZeroStrategy;
  /** Bytes of one parameter and of one gradient. Default 4 (float32). */
  readonly itemBytes?: number;
  /** Bytes of optimizer state a parameter. Default 8 (Adam's two float32 moments). */
  readonly optimizerBytes?: number;
}

/** Model states of one rank, and what it receives in one step. */
export interface ZeroPrediction {
  readonly strategy: ZeroStrategy;
  readonly world: number;
  readonly numParams: number;
  readonly padding: number;
  /** States by the cause under which a ledger finds them; what is not sharded counts as full. */
  readonly states: readonly { readonly cause: MemoryCause; readonly bytes: Bytes }[];
  readonly stateBytes: Bytes;
  /** Received from others by the ring algorithms, parameters and gradients only. */
  readonly wireBytes: { readonly param: Bytes; readonly grad: Bytes };
}

interface Sharded {
  readonly optimizer: boolean;
  readonly gradients: boolean;
  readonly parameters: boolean;
  /** All-gathers of a unit's parameters in one step. */
  readonly gathers: (unit: ZeroUnit) => number;
  /** Whether gradients come back whole (all-reduce: twice a reduce-scatter). */
  readonly reducesWhole: boolean;
}

const FULL_SHARD: Sharded = {
  optimizer: true,
  gradients: true,
  parameters: true,
  gathers: (unit) => (unit.staysWhole ? 1 : 2),
  reducesWhole: false,
};
const SHARD_GRAD_OP: Sharded = { ...FULL_SHARD, gathers: () => 1 };

const SHARDED: Readonly<Record<ZeroStrategy, Sharded>> = {
  NO_SHARD: { optimizer: false, gradients: false, parameters: false, gathers: () => 0, reducesWhole: true },
  ZERO_1: { optimizer: true, gradients: false, parameters: false, gathers: () => 1, reducesWhole: false },
  ZERO_2: { optimizer: true, gradients: true, parameters: false, gathers: () => 1, reducesWhole: false },
  // FSDP's form: parameters are cut at rest and whole from forward to backward; the paper's stage 2 keeps them whole.
  SHARD_GRAD_OP,
  FULL_SHARD,
  HYBRID_SHARD: FULL_SHARD,
  _HYBRID_SHARD_ZERO2: SHARD_GRAD_OP,
};

/**
 * Model states and communication by ZeRO's formulas. With Ψ parameters on N ranks: a sharded state costs its bytes
 * times Ψ/N; a gather or reduction of all parameters receives Ψ(N-1)/N elements.
 * Source: Rajbhandari et al. 2020, "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models",
 * section 5 (states), section 7 (communication); in bytes of float32 where the paper has 2 + 2 + 12.
 */
export function predictStates(question: ZeroQuestion): ZeroPrediction {
  const { units, world, strategy, itemBytes = 4, optimizerBytes = 8 } = question;
  const sharded = SHARDED[strategy];
  const numParams = units.reduce((sum, unit) => sum + unit.numParams, 0);
  const padding = units.reduce((sum, unit) => sum + (unit.padding ?? 0), 0);
  const held = (isSharded: boolean): number => (isSharded ? (numParams + padding) / world : numParams);
  const states = [
    { cause: sharded.parameters ? 'param.shard' : 'param.full', bytes: held(sharded.parameters) * itemBytes },
    { cause: sharded.gradients ? 'grad.shard' : 'grad.full', bytes: held(sharded.gradients) * itemBytes },
    { cause: 'optimizer', bytes: held(sharded.optimizer) * optimizerBytes },
  ] as const;
  const others = (world - 1) / world;
  const gathered = units.reduce((sum, unit) => sum + sharded.gathers(unit) * wireParams(unit), 0);
  // An all-reduce needs no equal shards, so it pads nothing.
  const reduced = sharded.reducesWhole ? numParams * 2 : numParams + padding;
  return {
    strategy,
    world,
    numParams,
    padding,
    states,
    stateBytes: states.reduce((sum, { bytes }) => sum + bytes, 0),
    wireBytes: {
      param: gathered * others * itemBytes,
      grad: reduced * others * itemBytes,
    },
  };
}

function wireParams(unit: ZeroUnit): number {
  return unit.numParams + (unit.padding ?? 0);
}
