import type { MemoryCause } from '../../core/events';
import type { Bytes } from '../../core/units';
import { predictStates, type ZeroPrediction, type ZeroStrategy } from '../zero-formulas';

/** fp32 parameters, gradients and Adam's two moments, or fp16 ones with a master copy: 4 + 4 + 8 or 2 + 2 + 12. */
export const STATE_BYTES_PER_PARAMETER = 16;

/** What one of `world` ranks holds and receives of a model that is one unit. */
export function modelStates(numParams: number, strategy: ZeroStrategy, world: number): ZeroPrediction {
  return predictStates({ units: [{ name: 'model', numParams }], strategy, world });
}

/** Bytes of states under any of these causes. */
export function bytesOf({ states }: ZeroPrediction, causes: readonly MemoryCause[]): Bytes {
  return states.reduce((sum, { cause, bytes }) => (causes.includes(cause) ? sum + bytes : sum), 0);
}

/** Wire bytes of a step against DDP's, as a factor. */
export function volumeAgainstDdp(strategy: ZeroStrategy, world: number): number {
  return received(modelStates(1e9, strategy, world)) / received(modelStates(1e9, 'NO_SHARD', world));
}

function received({ wireBytes }: ZeroPrediction): Bytes {
  return wireBytes.param + wireBytes.grad;
}
