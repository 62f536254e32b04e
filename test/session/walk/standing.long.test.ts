import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { collectNotes } from '../hangs/shown-hangs';
import { HANG_MS, launchFor } from '../job-fixture';

/** Longer than a hang takes to be said. */
const STANDING_MS = 8000;

test('a walk that stands for long gives no note of a hang, though a rank waits for one that halts', {
  timeout: 2 * HANG_MS,
}, async (context) => {
  const job = await launchFor(context, { ranks: 2 });
  const shown = collectNotes(context);
  const model = { kind: 'gpt', layers: 2, dim: 16, heads: 2, vocab: 256, seq: 8 } as const;
  const run = await job.train({ model, parallel: { pp: 2, microbatches: 2 }, batch: 2 });
  const walk = await run.walk();
  await walk.until('forward');
  await walk.next(1);
  assert.equal(walk.record().rounds.at(-1)?.[1]?.state, 'waiting');
  await delay(STANDING_MS);
  assert.deepEqual(shown.notes, []);
  await walk.live();
});
