import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { STRATEGIES, STRATEGY_NAMES, type StrategyName } from '../../../src/config/strategies';
import type { TrainConfigInput } from '../../../src/config/train-config';
import { createJobFolder, removeJobFolder } from '../../../src/launch/control/folder';
import { testData } from '../../support/paths';
import { type ParityResult, type ParityRun, trainParity } from './parity-rank';

export { STRATEGY_NAMES };
export const STEPS = 12;

/** The two eps of AdamW: torch's default, and one that does not amplify rounding noise. */
export const EPS = { torch: 1e-8, smooth: 1e-4 } as const;
export type EpsName = keyof typeof EPS;

/** A strategy's settings in a world: hybrid strategies have two copies if there are enough ranks. */
export function parallelOf(strategy: StrategyName, world: number): TrainConfigInput['parallel'] {
  if (!STRATEGIES[strategy].isHybrid || world === 1) return { strategy };
  const dpReplicate = world % 2 === 0 ? 2 : world;
  return { strategy, mesh: { dpReplicate, dpShard: world / dpReplicate } };
}

/** A finished run: the reports of its ranks, and the folder of their states. */
export interface FinishedRun {
  readonly run: ParityRun;
  readonly world: number;
  readonly results: readonly ParityResult[];
}

/** The recorded reference's model and settings. */
export function referenceConfig(eps: number, more: TrainConfigInput = {}): TrainConfigInput {
  return {
    model: { kind: 'gpt', layers: 2, dim: 64, heads: 4, vocab: 512, seq: 32 },
    data: 'synthetic',
    batch: 2,
    optimizer: { lr: 1e-3, betas: [0.9, 0.95], eps, weightDecay: 0.1 },
    clipNorm: 1,
    steps: STEPS,
    ...more,
  };
}

/** torch's losses of a world; they are the same for all strategies. */
export function torchLosses(world: number): readonly number[] {
  const file = testData('torch_reference', 'gpt_tiny_losses.json');
  // The shape of the recorded file.
  const recorded = JSON.parse(readFileSync(file, 'utf8')) as { losses: Record<string, { fsdp2: number[] }> };
  const losses = recorded.losses[String(world)]?.fsdp2;
  if (losses === undefined) throw new Error(`no recorded losses of ${world} ranks`);
  return losses;
}

/** Runs training runs one after another in one set of ranks, which start only if there are any. */
export async function finishRuns(
  world: number,
  blas: 'auto' | 'none',
  runs: readonly ParityRun[],
): Promise<FinishedRun[]> {
  if (runs.length === 0) return [];
  const byRank = await trainParity(world, runs, blas);
  return runs.map((run, i) => ({
    run,
    world,
    results: byRank.map((results) => {
      const result = results[i];
      if (result === undefined) throw new Error(`no result of ${run.name}`);
      return result;
    }),
  }));
}

/** A temporary folder that is deleted after the tests. If they are killed, the next launch of a job removes it. */
export function temporaryFolder(): { readonly path: string; remove(): void } {
  const path = createJobFolder();
  return { path, remove: () => removeJobFolder(path) };
}

/** One process that computes the batches of `ranks` ranks and `micros` microbatches together. */
export function singleRun(folder: string, eps: EpsName, ranks: number, micros = 1, steps = STEPS): ParityRun {
  const name = `single-${ranks}x${micros}-${eps}`;
  const parallel = { strategy: 'NO_SHARD' } as const;
  const config = referenceConfig(EPS[eps], { batch: 2 * ranks * micros, parallel, steps });
  return { name, config, folder: join(folder, name), concatenated: { ranks, micros } };
}

/** One process that computes the same batches with the parameters of a finished run's ranks at every step. */
export function followerOf(run: ParityRun, world: number): ParityRun {
  const name = `${run.name}-follower`;
  const config = { ...run.config, batch: 2 * world, parallel: { strategy: 'NO_SHARD' } } as const;
  const concatenated = { ranks: world, micros: 1 };
  return {
    name,
    config,
    folder: `${run.folder}-follower`,
    concatenated,
    follow: { folder: run.folder, world },
  };
}
