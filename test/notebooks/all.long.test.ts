import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { availableParallelism } from 'node:os';
import { basename } from 'node:path';
import { test } from 'node:test';
import { errorsIn, executed, notebookInputs, skip } from './executed';
import { unshownFacts } from './facts';
import { falseSentences } from './sentences';

/** How often each notebook is executed on the idle machine, and on one whose cores are all busy. */
const RUNS = Number(process.env.SHARDLAB_NOTEBOOK_RUNS ?? 1);

/** Keeps every core busy until the returned function is called. */
function occupyCores(): () => void {
  const loops = Array.from(
    { length: availableParallelism() },
    (): ChildProcess => spawn(process.execPath, ['-e', 'for (;;) {}'], { stdio: 'ignore' }),
  );
  return () => {
    for (const loop of loops) loop.kill('SIGKILL');
  };
}

test('every notebook runs in a fresh kernel in less than two minutes, and all its sentences are true', {
  skip,
}, async (t) => {
  const { notebookFiles, whyNotHere } = await notebookInputs();
  for (const path of notebookFiles()) {
    for (let run = 1; run <= RUNS; run++) {
      await t.test(`${basename(path)}, run ${run}`, { skip: whyNotHere(path) ?? false }, (sub) => {
        const start = performance.now();
        const { notebook, failure } = executed(path);
        assert.equal(failure, undefined, failure);
        const seconds = (performance.now() - start) / 1e3;
        sub.diagnostic(`${seconds.toFixed(0)} s`);
        assert.ok(seconds < 120, `${seconds} s`);
        assert.deepEqual([...falseSentences(notebook), ...unshownFacts(path, notebook)], []);
      });
    }
  }
});

test('while all cores are busy, all sentences of a notebook are true too', { skip }, async (t) => {
  const { notebookFiles, whyNotHere } = await notebookInputs();
  for (const path of notebookFiles()) {
    for (let run = 1; run <= RUNS; run++) {
      await t.test(`${basename(path)}, run ${run}`, { skip: whyNotHere(path) ?? false }, () => {
        const stop = occupyCores();
        try {
          const { notebook, failure } = executed(path);
          assert.equal(failure, undefined, failure);
          const problems = [
            ...errorsIn(notebook),
            ...falseSentences(notebook),
            ...unshownFacts(path, notebook),
          ];
          assert.deepEqual(problems, []);
        } finally {
          stop();
        }
      });
    }
  }
});
