import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { memoryAtPeak } from '../../src/ledger/memory';
import { launch } from '../../src/session/run/launch';
import { GPT, lacksDeepSpeed, largestDifference, launchTorch } from './torch-fixture';

const BOUND = 1e-4;
const BASE = { model: GPT, batch: 2, optimizer: { lr: 3e-3 }, seed: 5 } as const;

async function lossesHere(steps: number): Promise<readonly number[]> {
  const job = await launch({ ranks: 2 });
  try {
    const run = await job.train({ ...BASE, parallel: { strategy: 'NO_SHARD' } });
    await run.step(steps);
    return run.losses;
  } finally {
    await job.shutdown();
  }
}

test('runs on DeepSpeed survive failed work, record what they hold, and give checkpoints to FSDP2', {
  skip: lacksDeepSpeed(),
}, async (context) => {
  const expected = await lossesHere(9);
  const folder = mkdtempSync(join(tmpdir(), 'shardlab-zero-'));
  context.after(() => rmSync(folder, { recursive: true, force: true }));
  const job = await launchTorch(context, { ranks: 2 });
  for (const strategy of ['ZERO_1', 'ZERO_2', 'FULL_SHARD'] as const) {
    const run = await job.train({ ...BASE, parallel: { strategy } }, { framework: 'deepspeed' });
    await run.step(3);
    await assert.rejects(job.on(0).python('1 / 0'), /ZeroDivisionError/);
    await run.step(3);
    const saved = join(folder, strategy);
    await run.save(saved);
    const other = await job.train({ ...BASE, parallel: { strategy: 'FULL_SHARD' } });
    await other.load(saved);
    await other.step(3);
    const losses = [...run.losses.slice(0, 6), ...other.losses.slice(-3)];
    assert.ok(largestDifference(losses, expected) <= BOUND, `${strategy}: ${losses}, ${expected}`);
    const back = await job.train({ ...BASE, parallel: { strategy } }, { framework: 'deepspeed' });
    await back.load(saved);
    await back.step(3);
    assert.ok(largestDifference(back.losses.slice(-3), expected.slice(6)) <= BOUND, `${back.losses}`);

    const [record] = run.records.newest();
    assert.ok(record !== undefined);
    const held = memoryAtPeak(record);
    // Half of the parameters in float32 partitions; half of both of AdamW's states.
    assert.ok(held['param.shard'] >= (4 * run.numParams) / 2, JSON.stringify(held));
    assert.ok(held.optimizer >= (8 * run.numParams) / 2, JSON.stringify(held));
    const causes = new Set(record.collectives.map(({ cause }) => cause));
    for (const cause of ['param', 'grad', 'norm', 'loss'] as const) assert.ok(causes.has(cause), cause);
    assert.ok(!causes.has('activation'));
    await assert.rejects(run.parity(back), {
      code: 'CONFIG',
      message: /gradients.*DeepSpeed has freed them/,
    });
    for (const each of [run, other, back]) await each.dispose();
  }
});
