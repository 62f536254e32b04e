import { join } from 'node:path';
import type { StrategyName } from '../../../src/config/strategies';
import type { TrainConfigInput } from '../../../src/config/train-config';
import { launchRanks } from '../../support/launch-ranks';
import type { Action, ActionResult } from './checkpoint-rank';

/** A model without any size divisible by 3, and with few divisible by 4. */
export function tinyConfig(strategy: StrategyName, more: TrainConfigInput = {}): TrainConfigInput {
  return {
    model: { kind: 'gpt', layers: 2, dim: 10, heads: 2, vocab: 37, seq: 8 },
    data: 'synthetic',
    batch: 2,
    parallel: { strategy },
    steps: 5,
    ...more,
  };
}

/** Runs actions on `world` ranks; returns each rank's results. */
export function runActions(
  world: number,
  actions: readonly Action[],
  more: { readonly blockElements?: number } = {},
): Promise<ActionResult[][]> {
  const script = join(__dirname, 'checkpoint-rank.js');
  return launchRanks<ActionResult[]>({ script, world, args: { blas: 'none', actions, ...more } });
}

/** The value of a result. Throws: the error in its place. */
export function resultOf(result: ActionResult | undefined): unknown {
  if (result !== undefined && 'value' in result) return result.value;
  throw new Error(result === undefined ? 'no result' : `${result.code}: ${result.error}`);
}

/** The error that an action threw. */
export function errorOf(result: ActionResult | undefined): { readonly code: string; readonly error: string } {
  if (result !== undefined && 'error' in result) return result;
  throw new Error(`there was no error, but ${JSON.stringify(result)}`);
}
