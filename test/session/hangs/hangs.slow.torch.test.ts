import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Job } from '../../../src/session/run/job';
import { GPT, launchTorch } from '../../torch/torch-fixture';
import { checkPlanted, collectNotes, NOTE_SECONDS, type Planted } from './shown-hangs';

/** Cells of three ranks. */
const PLANTED: Planted = {
  'a loop': [
    'dist.barrier()\nif rank == 2:\n    while True: pass\ndist.barrier()',
    /^ranks 0-1 wait in barrier #\d+ \(cell 7, line 4\) for rank 2, which runs cell 7, line 3 /,
  ],
  'a loop of two lines in a function': [
    'def spin():\n    i = 0\n    while True:\n        i += 1\nif rank == 2: spin()\ndist.all_reduce(torch.ones(2))',
    /^ranks 0-1 wait in allReduce #\d+ \(cell 7, line 6\) for rank 2, which runs cell 7, line [34] /,
  ],
  'a sleep': [
    'import time\nif rank == 2: time.sleep(600)\ndist.barrier()',
    /^ranks 0-1 wait in barrier #\d+ \(cell 7, line 3\) for rank 2, which runs cell 7, line 2 /,
  ],
  'a lock that nobody gives back': [
    'import threading\nlock = threading.Lock()\nlock.acquire()\nif rank == 2: lock.acquire()\ndist.barrier()',
    /^ranks 0-1 wait in barrier #\d+ \(cell 7, line 5\) for rank 2, which runs cell 7, line 4 /,
  ],
  'a child process that sleeps': [
    "import subprocess\nif rank == 2: subprocess.run(['sleep', '600'])\ndist.barrier()",
    /^ranks 0-1 wait in barrier #\d+ \(cell 7, line 3\) for rank 2, which runs cell 7, line 2 /,
  ],
  'a receive without its send': [
    'if rank == 2:\n    while True: pass\nif rank == 0: dist.recv(torch.ones(2), 2)\ndist.barrier()',
    /rank 0 waits in recv #\d+ \(cell 7, line 3\) for rank 2, which runs cell 7, line 2 /,
  ],
  'a stopped process': [
    'import os, signal\nif rank == 2: os.kill(os.getpid(), signal.SIGSTOP)\ndist.barrier()',
    /^ranks 0-1 wait in barrier #\d+ \(cell 7, line 3\) for rank 2, which is stopped \(kill -CONT \d+ continues it\) /,
  ],
};

async function cellWith(job: Job, source: string): Promise<unknown> {
  return job
    .runPython({ source, cell: 7, selection: 'all' }, () => undefined)
    .catch((error: unknown) => error);
}

test('a note names the rank of PyTorch that does not come, and is gone after the cell', async (context) => {
  const job = await launchTorch(context, { ranks: 3 });
  await checkPlanted(context, job, PLANTED, (code) => cellWith(job, code));
  const shown = collectNotes(context);
  await context.test('ranks that compute give no note, and those of a stopped training do', async () => {
    const before = shown.notes.length;
    await cellWith(
      job,
      'import time\nend = time.monotonic() + 8\nwhile rank == 2 and time.monotonic() < end: torch.ones(64, 64) @ torch.ones(64, 64)\ndist.barrier()',
    );
    assert.equal(shown.notes.length, before);
    const run = await job.train({ model: GPT, batch: 3, parallel: { strategy: 'FULL_SHARD' } });
    await run.step(1);
    const stepping = run.step(100_000).catch((error: unknown) => error);
    process.kill(job.ranks[2]?.pid ?? 0, 'SIGSTOP');
    const note = await shown.next(NOTE_SECONDS);
    process.kill(job.ranks[2]?.pid ?? 0, 'SIGCONT');
    await job.interrupt();
    await stepping;
    assert.match(note, /^ranks 0-1 wait in \w+ #\d+ .*for rank 2, which is stopped/);
  });
});
