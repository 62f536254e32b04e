import assert from 'node:assert/strict';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import type { TrainConfigInput } from '../../src/config/train-config';
import { launchRanks } from '../support/launch-ranks';
import type { DryRunComparison } from './dry-run-rank';

interface SuiteOptions {
  readonly blas?: 'none' | 'auto';
  /** Whether the dry run may send more than the real run. */
  readonly isTrafficAssumed?: boolean;
}

/**
 * Requires that real ranks allocate, tag, free and send as in their dry runs, event for event; one set of processes runs all
 * cases. The first step allocates the states, the second is like all later ones.
 */
export function dryRunsEqualRealRuns(
  world: number,
  cases: ReadonlyMap<string, TrainConfigInput>,
  { blas = 'none', isTrafficAssumed = false }: SuiteOptions = {},
): void {
  describe(`${world} ranks, BLAS ${blas}`, () => {
    const script = join(__dirname, 'dry-run-rank.js');
    const args = { blas, steps: 2, configs: [...cases.values()] };
    const compared = launchRanks<DryRunComparison[]>({ script, world, args });
    compared.catch(() => undefined); // each test that awaits it reports its failure
    for (const [i, name] of [...cases.keys()].entries()) {
      test(`${name}: the dry run of every rank equals its real run, event for event`, async (t) => {
        for (const [rank, comparisons] of (await compared).entries()) {
          const one = comparisons[i];
          assert.ok(one !== undefined);
          if (isTrafficAssumed)
            assert.match(one.difference?.at ?? 'collective', /^collective/, `rank ${rank}`);
          else assert.deepEqual(one.difference, null, `rank ${rank}`);
          assert.ok(one.numEvents > 0 && (world === 1 || one.numCollectives > 0));
          assert.equal(one.dryPeak, one.realPeak);
        }
        const [first] = (await compared)[0]?.slice(i) ?? [];
        t.diagnostic(
          `${first?.numEvents} events, ${first?.numCollectives} collectives, peak ${first?.dryPeak} B`,
        );
      });
    }
  });
}
