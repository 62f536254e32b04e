import assert from 'node:assert/strict';
import { readdir } from 'node:fs/promises';
import { test } from 'node:test';
import { claimsLab } from '../../../src/claims/notebook/claims-lab';

const PLACE = { ranks: 2 } as const;
const CONFIG = {
  model: { kind: 'gpt', layers: 2, dim: 16, heads: 2, vocab: 64, seq: 8 },
  data: 'synthetic',
} as const;

test('a lab of claims trains, saves and calls functions on ranks of this machine', async (context) => {
  const lab = claimsLab();
  context.after(() => lab.close());
  const facts = await lab.train(CONFIG, { ...PLACE, steps: 2 });
  assert.equal(facts.losses.length, 2);
  const gathers = facts.collectives.filter(({ op, cause }) => op === 'allGather' && cause === 'param');
  assert.equal(gathers.length, 1);
  // The root and two blocks; blocks once more in backward.
  assert.equal(gathers[0]?.count, 5);
  assert.ok(facts.peakByCause['param.full'] > 0);
  assert.ok(facts.atPeak['param.shard'] > 0);

  const turns = await lab.inTurn({ one: CONFIG, other: { ...CONFIG, seed: 1 } }, { ...PLACE, rounds: 2 });
  assert.equal(turns.one.stepSeconds.length, 2);
  assert.notDeepEqual(turns.one.losses, turns.other.losses);

  const loaded = await lab.withRun(CONFIG, PLACE, async (run, folder) => {
    await run.step(1);
    await run.save(`${folder}/a`);
    await run.step(1);
    await run.load(`${folder}/a`);
    await run.step(1);
    return { files: await readdir(folder), losses: run.facts().losses };
  });
  assert.deepEqual(loaded.files, ['a']);
  assert.deepEqual(loaded.losses, facts.losses);

  assert.deepEqual(await lab.inRanks(PLACE, ({ rank }, more: number) => rank + more, 5), [5, 6]);
});
