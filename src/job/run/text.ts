import type { StrategyName } from '../../config/strategies';
import type { TrainConfig } from '../../config/train-config';
import { counted } from '../../figures/format';

/** The facts in a run's line. */
export interface RunFacts {
  readonly strategy: StrategyName;
  readonly world: number;
  readonly numParams: number;
  readonly losses: readonly number[];
}

/** A run in one line: 'FULL_SHARD on 4 ranks, 1,063,680 parameters, 20 steps: loss 7.6 → 5.1'. */
export function runText({ strategy, world, numParams, losses }: RunFacts): string {
  const head = `${strategy} on ${counted(world, 'rank')}, ${numParams.toLocaleString('en-US')} parameters`;
  const [first] = losses;
  if (first === undefined) return `${head}, no step yet: await run.step(20)`;
  const last = losses.at(-1) ?? first;
  return `${head}, ${counted(losses.length, 'step')}: loss ${first.toFixed(4)} → ${last.toFixed(4)}`;
}

/** Strategy and ranks of a run: 'FULL_SHARD on 4 ranks'. */
export function placeText({
  config,
  world,
}: {
  readonly config: Pick<TrainConfig, 'parallel'>;
  readonly world: number;
}): string {
  return `${config.parallel.strategy} on ${counted(world, 'rank')}`;
}
