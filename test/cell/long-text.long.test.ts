import assert from 'node:assert/strict';
import { test } from 'node:test';
import { launchFor } from '../session/job-fixture';

test('a text whose JSON no text of V8 could hold ends no rank, as a value of a variable, a function or a cell', async (context) => {
  const job = await launchFor(context, { ranks: 1 });
  await job.runCell({ js: 'let t = "\u00e9".repeat(4e8); t', cell: 1, selection: 'all' }, () => undefined);
  const [text] = await job.get('t');
  assert.equal(String(text).length, 4e8);
  assert.deepEqual(
    await job
      .on(0)
      .run(() => 'x'.repeat(5e8))
      .then(([one]) => one?.length),
    5e8,
  );
});
