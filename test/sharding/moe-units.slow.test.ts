import assert from 'node:assert/strict';
import { test } from 'node:test';
import { assertClose } from '../support/close';
import { type MoeUnitsResult, trainMoeUnits } from './moe-units-rank';

const CASES = ['DDP', 'FULL_SHARD', 'SHARD_GRAD_OP', 'NO_SHARD', 'Wan'] as const;

test('experts as units train as under DDP, also if a rank has no row for an expert', async () => {
  const byRank = await trainMoeUnits(3, CASES);
  const ofCase = (i: number): MoeUnitsResult[] => byRank.flatMap((results) => results[i] ?? []);
  const [ddp] = [ofCase(0)];
  assert.ok(
    ddp.some(({ routed }) => routed.includes(0)),
    'some expert gets no row on some rank',
  );
  const total = (results: readonly MoeUnitsResult[]): number =>
    results.reduce((sum, { squares }) => sum + squares, 0);
  for (const [i, name] of CASES.entries()) {
    const results = ofCase(i);
    results.forEach(({ losses }, rank) => {
      // Means over three ranks are added in another order: some float32 roundings of difference.
      assertClose(losses, ddp[rank]?.losses ?? [], 1e-5, `${name}, rank ${rank}: losses`);
    });
    assert.ok(Math.abs(total(results) / total(ddp) - 1) < 1e-5, `${name}: parameters`);
  }
});
