import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { whyNoBlas } from '../../support/blas-search';
import { requireSameGradients, requireSameStates } from '../parity/parity-checks';
import { temporaryFolder } from '../parity/parity-runs';
import { finishCombinations } from './combination-runs';
import { COMBINATIONS, type Combination, type CombinationName } from './combinations';

const ROUNDED_BOUND = 2e-3;

/** Compares losses, gradients, parameters and optimizer states of every step with those of one process. */
export function testCombinations(what: string, names: readonly CombinationName[]): void {
  describe(what, { skip: whyNoBlas() }, () => {
    const folder = temporaryFolder();
    let found: Awaited<ReturnType<typeof finishCombinations>> = new Map();
    before(async () => {
      found = await finishCombinations(names, folder.path);
    });
    after(() => folder.remove());

    for (const name of names) {
      const { world, isRounded = false }: Combination = COMBINATIONS[name];
      test(`${world} ranks equal one process: ${name}`, (t) => {
        const pair = found.get(name);
        assert.ok(pair);
        const { together, alone } = pair;
        if (isRounded) {
          for (const { losses } of together.results) {
            losses.forEach((loss, step) => {
              const expected = alone.results[0]?.losses[step] ?? Number.NaN;
              assert.ok(
                Math.abs(loss - expected) <= ROUNDED_BOUND,
                `step ${step}: ${loss}, one process ${expected}`,
              );
            });
          }
          return;
        }
        requireSameGradients(together, alone, t);
        requireSameStates(together, alone, 'smooth', t);
      });
    }
  });
}
