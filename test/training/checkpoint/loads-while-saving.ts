import assert from 'node:assert/strict';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import type { Job } from '../../../src/session/run/job';
import { temporaryFolder } from '../../session/job-fixture';

const CONFIG = {
  model: { kind: 'gpt', layers: 2, dim: 64, heads: 2, vocab: 256, seq: 16 },
  parallel: { strategy: 'FULL_SHARD' },
} as const;

/**
 * One job saves into a folder after each of its steps; meanwhile the other job loads from there as often as it can, and trains one
 * step from each checkpoint. Checks that no load fails, and that each of these steps has the loss that the saving run had: if
 * ranks had read parts of different checkpoints, the loss would differ.
 */
export async function loadWhileSaving(
  context: TestContext,
  [saving, loading]: readonly [Job, Job],
  numSaves: number,
): Promise<void> {
  const { path } = temporaryFolder(context);
  const folder = join(path, 'saved');
  const [from, to] = [await saving.train(CONFIG), await loading.train(CONFIG)];
  await from.step(1);
  await from.save(folder);
  let hasEnded = false;
  const saves = (async () => {
    for (let i = 0; i < numSaves; i++) {
      await from.step(1);
      await from.save(folder);
    }
    await from.step(1);
  })().finally(() => {
    hasEnded = true;
  });
  const losses: [number, number | undefined][] = [];
  while (!hasEnded) {
    const { step } = await to.load(folder);
    await to.step(1);
    losses.push([step ?? 0, to.losses.at(-1)]);
  }
  await saves;
  context.diagnostic(`${losses.length} loads during ${numSaves} saves`);
  assert.ok(new Set(losses.map(([step]) => step)).size > 2);
  assert.deepEqual(
    losses,
    losses.map(([step]) => [step, from.losses[step]]),
  );
}
