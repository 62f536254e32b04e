import assert from 'node:assert/strict';
import { test } from 'node:test';
import { availableMemory } from '../../src/launch/host-memory';
import { launchFor, resultsOf, runCell } from '../session/job-fixture';

/** A full heap, and the array of values that is copied to it. */
const NEEDED_BYTES = 6e9;

test("tensors beyond the wasm heap's 4 GiB are a typed error that names the held memory, and the job still works", {
  skip: availableMemory() < NEEDED_BYTES && 'this machine has less than 6 GB free',
}, async (context) => {
  const job = await launchFor(context, { ranks: 2 });
  const loop = 'let kept = [];\nif (rank === 0) for (;;) kept.push(tf.zeros([64, 1 << 20]));\ndist.barrier()';
  await assert.rejects(runCell(job, loop, 7), {
    code: 'OUT_OF_MEMORY',
    message:
      /^\[rank 0\/2\] 268 MB for temp .* do not fit: 4\.\d+ GB are held and the wasm engine's heap ends at 4\.29 GB\. Held: temp 4\.\d+ GB\..*\(cell 7, line 2\)/,
  });
  // Kernels that need temporary memory or an output also fail, even if they allocate in C++.
  for (const [cell, op] of ['tf.cumsum(kept[0])', 'kept[0].add(1)', 'kept[0].transpose()'].entries()) {
    await assert.rejects(runCell(job, `if (rank === 0) ${op}`, 8 + cell), { code: 'OUT_OF_MEMORY' });
  }
  const free =
    'tf.dispose(kept); kept = []; const x = tf.ones([1000]); dist.allReduce(x); x.sum().arraySync()';
  assert.deepEqual(resultsOf(await runCell(job, free, 20)), { 0: '2000', 1: '2000' });
});

test('a rank with a full JavaScript heap dies with the error OUT_OF_MEMORY', async (context) => {
  const options = process.env.NODE_OPTIONS;
  process.env.NODE_OPTIONS = `${options ?? ''} --max-old-space-size=100`;
  context.after(() => {
    if (options === undefined) delete process.env.NODE_OPTIONS;
    else process.env.NODE_OPTIONS = options;
  });
  const job = await launchFor(context, { ranks: 2 });
  const js = 'const a = []; if (rank === 0) for (;;) a.push(new Array(1000).fill(0.5));\ndist.barrier()';
  await assert.rejects(runCell(job, js), {
    code: 'OUT_OF_MEMORY',
    message: /rank 0's process ended \(SIGABRT\).*FATAL ERROR.*heap out of memory; the job cannot continue/,
  });
});
