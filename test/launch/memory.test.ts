import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { rankError } from '../../src/launch/rank/error';
import { codeOfExit, explainExit, lastWords, withCause } from '../../src/launch/rank-process';
import { launchFor, resultsOf, runCell } from '../session/job-fixture';

const KILLED = { code: null, signal: 'SIGKILL' } as const;
const HEAP_FULL = [
  '<--- Last few GCs --->',
  'FATAL ERROR: Reached heap limit Allocation failed - JavaScript heap out of memory',
  '----- Native stack trace -----',
  ' 1: 0xb8ced1 node::OOMErrorHandler',
].join('\n');

test("a SIGKILL that the job did not send may mean too little memory; the kernel's count proves it", () => {
  const alive = { killedByJob: false, oomKills: 0, tail: '' };
  const unknown = withCause(KILLED, alive);
  assert.equal(codeOfExit(unknown), 'RANK_DIED');
  assert.match(explainExit(unknown), /did not send that signal: the kernel sends it when memory runs out/);
  const memory = withCause(KILLED, { ...alive, oomKills: 1 });
  assert.equal(codeOfExit(memory), 'OUT_OF_MEMORY');
  assert.match(explainExit(memory), /because memory ran out: launch fewer ranks/);
  const own = withCause(KILLED, { ...alive, killedByJob: true, oomKills: 1 });
  assert.equal(codeOfExit(own), 'RANK_DIED');
  assert.equal(explainExit(own), '');
  const exited = { code: 3, signal: null };
  assert.deepEqual(withCause(exited, { ...alive, oomKills: 1 }), exited);
});

test("a full JavaScript heap is OUT_OF_MEMORY, and the rank's last words are V8's line", () => {
  const exit = withCause(
    { code: null, signal: 'SIGABRT' },
    { killedByJob: false, oomKills: 0, tail: HEAP_FULL },
  );
  assert.equal(codeOfExit(exit), 'OUT_OF_MEMORY');
  assert.match(explainExit(exit), /its memory was full/);
  assert.match(lastWords({ stderrTail: HEAP_FULL }), /^; its last words: FATAL ERROR: .*out of memory$/);
});

test('an array too large for JavaScript is OUT_OF_MEMORY; other range errors are not', () => {
  assert.equal(rankError(new RangeError('Array buffer allocation failed')).code, 'OUT_OF_MEMORY');
  assert.equal(rankError(new RangeError('Invalid typed array length: 1000000000000')).code, 'OUT_OF_MEMORY');
  assert.equal(rankError(new RangeError('Invalid typed array length: -1')).code, 'RANK_FAILED');
  assert.equal(rankError(new RangeError('Invalid array length')).code, 'RANK_FAILED');
});

test("a rank's error says what to write in place of a function or variable that does not exist", () => {
  const { evalue } = rankError(new TypeError('x.size is not a function'));
  assert.equal(evalue, 'x.size is not a function. Write x.shape[0] for the size of a dim');
  assert.equal(rankError(new TypeError('x.own is not a function')).evalue, 'x.own is not a function');
  const missing = rankError(new ReferenceError('model is not defined')).evalue;
  assert.match(missing, /No cell has declared it in these ranks: .* job that was launched last/);
});

test('impossibly large tensors are a typed error, and the job still works', async (context) => {
  const job = await launchFor(context, { ranks: 2 });
  for (const [cell, js] of ['tf.zeros([1e6, 1e6])', 'tf.ones([1e5, 1e5]); dist.barrier()'].entries()) {
    await assert.rejects(runCell(job, js, cell), { code: 'OUT_OF_MEMORY', message: /^\[ranks 0-1 of 2\]/ });
  }
  assert.deepEqual(resultsOf(await runCell(job, 'dist.barrier(); rank', 9)), { 0: '0', 1: '1' });
});

test('memoryLimit ends a loop that stores its tensors; the error names the held memory, which can be freed', async (context) => {
  const job = await launchFor(context, { ranks: 2, memoryLimit: 10e6 });
  const loop = 'let kept = []; if (rank === 1) for (;;) kept.push(tf.zeros([1000, 1000])); dist.barrier()';
  await assert.rejects(runCell(job, loop), {
    code: 'OUT_OF_MEMORY',
    message:
      /^\[rank 1\/2\] 4\.00 MB for temp \(float32 \[1000, 1000\]\) do not fit: 8\.00 MB are held and the memoryLimit is 10\.0 MB/,
  });
  const free = 'dist.barrier(); kept.length; tf.dispose(kept); kept = []; tf.zeros([2000, 1000]).size';
  assert.deepEqual(resultsOf(await runCell(job, free, 2)), { 0: '2000000', 1: '2000000' });
});

test('the error of a rank that was killed says that memory may be the reason', async (context) => {
  const job = await launchFor(context, { ranks: 2 });
  const kill = 'if (rank === 1) process.kill(process.pid, "SIGKILL"); dist.barrier()';
  await assert.rejects(runCell(job, kill), { code: 'RANK_DIED', message: /when memory runs out/ });
  await assert.rejects(runCell(job, 'rank'), { code: 'RANK_DIED', message: /when memory runs out/ });
});

test('when memory runs out, Linux ends ranks before their launcher', {
  skip: process.platform !== 'linux' && 'only Linux tells whom it ends first',
}, async (context) => {
  const job = await launchFor(context, { ranks: 1 });
  const score = (pid: number): number => Number(readFileSync(`/proc/${pid}/oom_score_adj`, 'utf8'));
  assert.ok(score(job.ranks[0]?.pid ?? 0) > score(process.pid));
});
