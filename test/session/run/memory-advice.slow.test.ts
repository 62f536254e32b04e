import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { TrainConfigInput } from '../../../src/config/train-config';
import { ShardlabError } from '../../../src/core/errors';
import type { TriedSetting } from '../../../src/session/run/memory-advice';
import type { Run } from '../../../src/session/run/run';
import { launchFor } from '../job-fixture';

const MODEL = { kind: 'gpt', layers: 2, dim: 32, heads: 4, vocab: 512, seq: 32 } as const;
const CONFIG: TrainConfigInput = {
  model: MODEL,
  data: 'synthetic',
  batch: 4,
  parallel: { strategy: 'NO_SHARD' },
};

/** Bytes of a rank at the peak of two steps, including the building of the model. */
async function neededBytes(run: Run): Promise<number> {
  await run.step(2);
  return Math.max(...[...run.records].map(({ memory }) => memory.peakBytes + memory.elsewhereBytes));
}

test('an out-of-memory error of a run names settings that really fit', async (context) => {
  const free = await launchFor(context, { ranks: 2 });
  const needed = await neededBytes(await free.train(CONFIG));
  await free.shutdown();
  const memoryLimit = needed - 1;
  const job = await launchFor(context, { ranks: 2, memoryLimit });
  const run = await job.train(CONFIG);
  const error = await run.step(2).then(
    () => assert.fail('it fits'),
    (thrown: unknown) => thrown,
  );
  assert.ok(error instanceof ShardlabError && error.code === 'OUT_OF_MEMORY', String(error));
  assert.match(
    error.message,
    /^\[rank[^\n]*do not fit: .* are held and the memoryLimit is .*\nTried here, .*these fit:\n {2}\S/,
  );
  assert.doesNotMatch(error.message, /, line \d/, 'a step has no line of a cell');
  await assert.rejects(run.step(), { code: 'CLOSED', message: /job\.train\(config\)/ });
  // The suggested settings fit in a run under the limit.
  const tried = error.details.tried as readonly TriedSetting[]; // as the advice gives it
  const shards = tried.find(({ setting }) => setting === "parallel: { strategy: 'FULL_SHARD' }");
  assert.ok(shards?.fits);
  const fitting = await job.train({ ...CONFIG, parallel: { strategy: 'FULL_SHARD' } });
  assert.ok((await neededBytes(fitting)) <= shards.peakBytes);
  await fitting.dispose();
  const held = await job.on('all').run(({ engine }) => engine.memory.bytes);
  assert.deepEqual(held, [0, 0]);
});
