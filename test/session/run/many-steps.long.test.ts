import assert from 'node:assert/strict';
import { test } from 'node:test';
import { heldBytes } from '../../support/held-bytes';
import { launchFor, temporaryFolder, withTmpdir } from '../job-fixture';

/** A model whose steps take almost no time, because only the number of steps matters. */
const CONFIG = {
  model: { kind: 'gpt', layers: 1, dim: 16, heads: 2, vocab: 64, seq: 8 },
  data: 'synthetic',
  parallel: { strategy: 'FULL_SHARD' },
} as const;

test('steps use under 4 kB each in the launcher, and figures of old steps can be read, also after the job', async (context) => {
  const folder = temporaryFolder(context);
  const job = await withTmpdir(folder.path, () => launchFor(context, { ranks: 2 }));
  const run = await job.train(CONFIG);
  await run.step(100);
  const before = heldBytes();
  await run.step(200);
  const perStep = (heldBytes() - before) / 200;
  assert.ok(perStep < 4000, `${perStep} bytes a step`);
  assert.equal([...run.records].length, 600);
  await job.shutdown();
  assert.deepEqual(folder.left(), []);
  assert.match(run.timeline({ step: 7 }).subtitle, /[Ss]tep 7/);
  const wrong: readonly [() => unknown, RegExp][] = [
    [() => run.timeline({ as: 'pipelin' as 'pipeline' }), /did you mean 'pipeline'\?/],
    [() => run.timeline({ stepp: 7 } as object), /no argument stepp; did you mean step\?/],
    [() => run.memory({ overr: 'time' } as object), /no argument overr; did you mean over\?/],
  ];
  for (const [draw, message] of wrong) assert.throws(draw, { code: 'CONFIG', message });
  assert.match(run.comm().subtitle, /mean per rank and step, over 10 steps/);
  assert.equal(run.losses.length, 300);
  assert.throws(() => run.memory({ step: 301 }), { code: 'CONFIG', message: /step 301 .* 1 to 300/ });
});
