import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import type { Job } from '../../../src/session/run/job';
import { HANG_MS, launchFor } from '../job-fixture';
import { checkPlanted, collectNotes, NOTE_SECONDS, type Planted } from './shown-hangs';

/** Cells of four ranks. */
const PLANTED: Planted = {
  'a loop': [
    'dist.barrier();\nif (rank === 2)\n  while (true) {}\ndist.barrier();',
    /^ranks 0, 1, 3 wait in barrier #\d+ \(cell 7, line 4\) for rank 2, which runs cell 7, line 3 /,
  ],
  'a loop in a function': [
    'function spin() {\n  for (;;) {}\n}\nif (rank === 2) spin();\ndist.allReduce(tf.ones([2]));',
    /^ranks 0, 1, 3 wait in allReduce #\d+ \(cell 7, line 5\) for rank 2, which runs cell 7, line 2 /,
  ],
  'a promise that never settles': [
    'if (rank === 2) await new Promise(() => {});\ndist.barrier();',
    /^ranks 0, 1, 3 wait in barrier #\d+ \(cell 7, line 2\) for rank 2, which awaits something in cell 7 /,
  ],
  'a timer of ten minutes': [
    'if (rank === 2) await new Promise((resolve) => setTimeout(resolve, 600_000));\ndist.broadcast(tf.ones([2]), 0);',
    /^rank 0 waits|^ranks [\d, ]+ waits? in broadcast .* for rank 2, which awaits something in cell 7 /,
  ],
  'a wait on memory': [
    'if (rank === 2) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);\ndist.barrier();',
    /^ranks 0, 1, 3 wait in barrier #\d+ \(cell 7, line 2\) for rank 2, which runs cell 7, line 1 /,
  ],
  'a child process that sleeps': [
    "const { execSync } = require('node:child_process');\nif (rank === 2) execSync('sleep 600');\ndist.barrier();",
    /^ranks 0, 1, 3 wait in barrier #\d+ \(cell 7, line 3\) for rank 2, which runs cell 7 /,
  ],
  'a group whose other member loops': [
    'const pair = dist.newGroup([0, 2]);\nif (rank === 2) while (true) {}\nif (rank === 0) dist.allReduce(tf.ones([2]), { group: pair });\ndist.barrier();',
    /rank 0 waits in allReduce #\d+ \(group [^)]*, cell 7, line 3\) for rank 2, which runs cell 7, line 2 /,
  ],
  'a receive without its send': [
    'if (rank === 2) while (true) {}\nif (rank === 0) dist.recv(tf.zeros([2]), 2);\nelse dist.barrier();',
    /rank 0 waits in recv #\d+ \(cell 7, line 2\) for rank 2, which runs cell 7, line 1 /,
  ],
  'a chain of waits': [
    'const a = dist.newGroup([1, 2]);\nif (rank === 2) while (true) {}\nif (rank === 1) dist.allReduce(tf.ones([2]), { group: a });\nif (rank === 0) dist.recv(tf.zeros([2]), 1);\nelse dist.barrier();',
    /rank 1 waits in allReduce #\d+ \(group [^)]*, cell 7, line 3\) for rank 2, which runs cell 7, line 2 /,
  ],
  'a stopped process': [
    // After process.kill(process.pid, …), Node ends the inspector, so the rank would have no guardian.
    'if (rank === 2) require("node:child_process").execSync("kill -STOP " + process.pid);\ndist.barrier();',
    /^ranks 0, 1, 3 wait in barrier #\d+ \(cell 7, line 2\) for rank 2, which is stopped \(kill -CONT \d+ continues it\) /,
  ],
};

async function cellWith(job: Job, js: string): Promise<unknown> {
  return job.runCell({ js, cell: 7, selection: 'all' }, () => undefined).catch((error: unknown) => error);
}

test('a note names the rank that does not come, and is gone after the cell', async (context) => {
  const job = await launchFor(context, { ranks: 4 });
  await checkPlanted(context, job, PLANTED, (code) => cellWith(job, code));
});

/** A model whose forward never ends on rank 1 after two steps. */
async function trainEndless(context: TestContext): Promise<{ job: Job; stepping: Promise<unknown> }> {
  const job = await launchFor(context, { ranks: 2 });
  const run = await job.train({
    model: ({ nn, rank }) => {
      class Slow extends nn.Module {
        layer = new nn.Linear(4, 4);
        #left = 2;
        forward(x: never) {
          while (rank === 1 && this.#left === 0) {}
          this.#left--;
          return this.layer.forward(x);
        }
      }
      return new Slow();
    },
    data: ({ tf }) => ({ x: tf.ones([2, 4]) }),
    loss: (y) => y.mean(),
    parallel: { strategy: 'FULL_SHARD' },
  });
  return { job, stepping: run.step(9).catch((error: unknown) => error) };
}

test('a note of a training names the collective, its module, and the line of the model', async (context) => {
  const shown = collectNotes(context);
  const { job, stepping } = await trainEndless(context);
  assert.match(
    await shown.next(NOTE_SECONDS),
    /^rank 0 waits in \w+ #\d+ .*for rank 1, which runs job\.train model:/,
  );
  await job.interrupt();
  await stepping;
  assert.equal(shown.notes.at(-1), '');
});

test('ranks that compute, wait for a core, or train slowly give no note', {
  timeout: 4 * HANG_MS,
}, async (context) => {
  const job = await launchFor(context, { ranks: 4 });
  const shown = collectNotes(context);
  const slow =
    'const end = Date.now() + 8000;\nif (rank === 2) while (Date.now() < end) tf.tidy(() => tf.ones([64, 64]).matMul(tf.ones([64, 64])));\ndist.barrier();';
  await cellWith(job, slow);
  const run = await job.train({ model: 'tiny', batch: 8, parallel: { strategy: 'FULL_SHARD' } });
  const others = Array.from({ length: 8 }, () => cellWith(job, 'await 0'));
  await run.step(40);
  await Promise.all(others);
  assert.deepEqual(shown.notes, []);
});
