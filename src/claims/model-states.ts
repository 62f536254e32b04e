import { STRATEGIES, type StrategyName } from '../config';
import type { Bytes, MemoryCause } from '../core';

/** Parameters, gradients and Adam's states: 4 + 4 + 8 in fp32, or 2 + 2 + 12 in fp16 with an fp32 master and moments. */
export const STATE_BYTES_PER_PARAMETER = 16;

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
export function modelStates(numParams: number, strategy: StrategyName, world: number): ModelStates {
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
export function bytesOf({ states }: ModelStates, causes: readonly MemoryCause[]): Bytes {
  return states.reduce((sum, { cause, bytes }) => (causes.includes(cause) ? sum + bytes : sum), 0);
}

/** Returns the wire bytes of a step divided by the wire bytes of a DDP step. */
export function volumeAgainstDdp(strategy: StrategyName, world: number): number {
  return received(modelStates(1e9, strategy, world)) / received(modelStates(1e9, 'NO_SHARD', world));
}

function received({ wireBytes }: ModelStates): Bytes {
  return wireBytes.param + wireBytes.grad;
}
