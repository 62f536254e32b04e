import assert from 'node:assert/strict';
import { test } from 'node:test';
import { HANG_MS, launchFor } from '../job-fixture';
import { collectNotes } from './shown-hangs';

test('a note below a cell that hangs names the missing rank and its line, with a picture, and is gone after the cell', {
  timeout: HANG_MS,
}, async (context) => {
  const job = await launchFor(context, { ranks: 2 });
  const shown = collectNotes(context);
  const js = 'if (rank === 1)\n  while (true) {}\ndist.barrier();';
  const ended = job
    .runCell({ js, cell: 7, selection: 'all' }, () => undefined)
    .catch((error: unknown) => error);
  const note = await shown.next(HANG_MS / 1e3);
  await job.interrupt();
  await ended;
  assert.match(
    note,
    /^rank 0 waits in barrier #1 \(cell 7, line 3\) for rank 1, which runs cell 7, line 2 \(\d/,
  );
  assert.match(note, /\nIf this is not what you want, interrupt the cell; the ranks' variables stay\.$/);
  assert.match(shown.pictures.at(-2) ?? '', /<svg[\s\S]*Rank 0 waits for rank 1[\s\S]*runs cell 7, line 2/);
  assert.deepEqual([shown.notes.at(-1), shown.pictures.at(-1)], ['', '']);
});
