import { join } from 'node:path';
import type { TrainConfigInput } from '../../../src/config/train-config';
import type { ParityRun } from '../parity/parity-rank';
import { EPS, type FinishedRun, finishRuns } from '../parity/parity-runs';
import { COMBINATIONS, type Combination, type CombinationName } from './combinations';

/** A missed gather, or a wrong optimizer state, shows in the second step. */
export const STEPS = 2;

const USUAL: TrainConfigInput = {
  data: 'synthetic',
  optimizer: { lr: 1e-3, betas: [0.9, 0.95], eps: EPS.smooth, weightDecay: 0.1 },
  clipNorm: 0.5,
  steps: STEPS,
};

/** The run of a combination on its ranks. */
export function runOf(name: CombinationName, folder: string, title: string = name): ParityRun {
  const config = { ...USUAL, ...COMBINATIONS[name].config };
  return { name: title, config, folder: join(folder, title.replaceAll(/\W+/g, '-')), seeded: true };
}

/** The same training in one process, with the batches of all ranks as one. */
export function aloneOf(name: CombinationName, folder: string): ParityRun {
  const { config, dp }: Combination = COMBINATIONS[name];
  const { batch = 0, accumulation = 1, clipNorm, mixedPrecision } = config;
  const more = {
    ...(clipNorm === undefined ? {} : { clipNorm }),
    ...(mixedPrecision ? { mixedPrecision } : {}),
  };
  return {
    ...runOf(name, folder, `${name}, alone`),
    config: {
      ...USUAL,
      ...more,
      model: config.model,
      batch: batch * dp * accumulation,
      parallel: { strategy: 'NO_SHARD' },
    },
    concatenated: { ranks: dp, micros: accumulation },
  };
}

/** Trains combinations alone, then each world's in one set of ranks; by name. */
export async function finishCombinations(
  names: readonly CombinationName[],
  folder: string,
): Promise<Map<CombinationName, { readonly together: FinishedRun; readonly alone: FinishedRun }>> {
  const alone = await finishRuns(
    1,
    'auto',
    names.map((name) => aloneOf(name, folder)),
  );
  const found = new Map<CombinationName, { together: FinishedRun; alone: FinishedRun }>();
  for (const world of [2, 3, 4, 6, 8]) {
    const own = names.filter((name) => COMBINATIONS[name].world === world);
    const finished = await finishRuns(
      world,
      'auto',
      own.map((name) => runOf(name, folder)),
    );
    own.forEach((name, i) => {
      const [together, single] = [finished[i], alone[names.indexOf(name)]];
      if (together !== undefined && single !== undefined) found.set(name, { together, alone: single });
    });
  }
  return found;
}
