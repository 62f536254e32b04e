import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { launchRanks } from '../../support/launch-ranks';
import type { UnitResult } from './unit-rank';

const CASES = 40;

for (const world of [2, 3, 5]) {
  test(`${world} ranks: units of any shapes gather the sharded values and reduce to the exact mean`, async (t) => {
    const script = join(__dirname, 'unit-rank.js');
    const byRank = await launchRanks<UnitResult[]>({ script, world, args: { blas: 'none', cases: CASES } });
    for (let i = 0; i < CASES; i++) {
      const results = byRank.flatMap((cases) => cases[i] ?? []);
      const [first] = results;
      assert.ok(first);
      const held = results.reduce((sum, { shard, padding }) => sum + shard - padding, 0);
      assert.equal(held, first.whole, `shards of ${JSON.stringify(first.shapes)} add up to the whole`);
      for (const [rank, result] of results.entries()) {
        const what = `rank ${rank}, shapes ${JSON.stringify(result.shapes)}`;
        assert.ok(result.gathered, `unshard after reshard is the identity: ${what}`);
        assert.ok(result.reduced, `reduced gradients: ${what}`);
        assert.ok(result.likeAllReduce, `reduce-scatter then all-gather is all-reduce: ${what}`);
        assert.equal(result.shardBytes, 4 * result.shard, `bytes of the shard, padding included: ${what}`);
      }
    }
    const padding = byRank.flat().reduce((sum, result) => sum + 4 * result.padding, 0);
    const bytes = byRank.flat().reduce((sum, result) => sum + result.shardBytes, 0);
    t.diagnostic(`${padding} of ${bytes} B are padding`);
  });
}
