import assert from 'node:assert/strict';
import { test } from 'node:test';
import { unitsTable } from '../../src/figures/units-table';
import { linkOf } from '../../src/wire/transport/link';

const unit = (module: string, numParams: number, numShards = 4) => ({
  module,
  strategy: numShards === 1 ? 'NO_SHARD' : 'FULL_SHARD',
  numParams,
  padding: 0,
  numShards,
});

test('a unit whose latency is longer than its transfer is marked as too small', () => {
  const link = linkOf({ gbit: 8, latencyUs: 100 });
  // 3 steps of 100 µs; 3/4 of its bytes at 1 GB/s: both take equally long at 400 kB.
  const table = unitsTable([unit('', 120_000), unit('a', 99_999), unit('b', 100_001)], { link });
  const [root, small, large] = table.rows;
  assert.ok(root !== undefined && small !== undefined && large !== undefined);
  assert.equal(root.module, 'root');
  assert.equal(root.gatherSeconds, 3 * 100e-6 + (0.75 * 480_000) / 1e9);
  assert.match(
    String(small.hint),
    /too small for the link: latency 300 µs > transfer 300 µs; the two are equal at 400 kB/,
  );
  assert.equal(large.hint, null);
  assert.match(table.title, /3 units, together 1\.28 MB, link 8 Gbit\/s, 100 µs; 1 with a hint/);
  const half = unitsTable([unit('', 120_000), unit('b', 100_001)], { link, wireItemBytes: 2 });
  assert.match(String(half.rows[1]?.hint), /transfer 150 µs/);
});

test('a unit of more than half of the model is marked as too large', () => {
  const table = unitsTable([unit('', 60), unit('head', 40)]);
  assert.match(String(table.rows[0]?.hint), /too large: 60% of the model is whole at once \(over 50%\)/);
  assert.equal(table.rows[1]?.hint, null);
  assert.ok(!table.toText().includes('gather on the link'));
  const whole = unitsTable([unit('', 100, 1)], { link: linkOf('1GbE') });
  assert.deepEqual([whole.rows[0]?.gatherSeconds, whole.rows[0]?.hint], [null, null]);
});
