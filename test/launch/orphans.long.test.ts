import assert from 'node:assert/strict';
import { fork } from 'node:child_process';
import { join } from 'node:path';
import { test } from 'node:test';
import { goneAfter, temporaryFolder } from '../session/job-fixture';
import { HAS_ALL_CASES } from '../support/cases';

const OCCUPATIONS = {
  'are idle': '',
  'are in a busy loop': 'while (true) {}',
  'wait in a collective': 'if (rank === 0) await new Promise(() => {}); dist.barrier()',
  'wait for a child process': 'require("node:child_process").spawnSync("sleep", ["600"])',
  train: 'train',
};

for (const [what, js] of Object.entries(OCCUPATIONS)) {
  const signals = ['SIGKILL', 'SIGTERM'] as const;
  for (const signal of HAS_ALL_CASES || what === 'train' ? signals : signals.slice(0, 1)) {
    test(`ranks that ${what} end when their launcher ends by ${signal}`, async (context) => {
      const folder = temporaryFolder(context);
      const env = { ...process.env, TMPDIR: folder.path };
      const launcher = fork(join(__dirname, 'orphan-launcher.js'), [js], { silent: true, env });
      context.after(() => launcher.kill('SIGKILL'));
      // The launcher sends nothing else.
      const pids = await new Promise<number[]>((resolve) =>
        launcher.once('message', (sent) => resolve(sent as number[])),
      );
      assert.equal(pids.length, 2);
      launcher.kill(signal);
      const milliseconds = await goneAfter(pids);
      context.diagnostic(`gone after ${milliseconds?.toFixed(0)} ms`);
      assert.notEqual(milliseconds, undefined, 'ranks were left behind');
      assert.deepEqual(folder.left(), []);
    });
  }
}

test('ranks that SIGSTOP has stopped end when their launcher is killed', {
  skip: process.platform !== 'linux' && 'only Linux continues a stopped process when its parent ends',
}, async (context) => {
  const folder = temporaryFolder(context);
  const env = { ...process.env, TMPDIR: folder.path };
  const launcher = fork(join(__dirname, 'orphan-launcher.js'), [''], { silent: true, env });
  context.after(() => launcher.kill('SIGKILL'));
  const pids = await new Promise<number[]>((resolve) =>
    launcher.once('message', (sent) => resolve(sent as number[])),
  );
  for (const pid of pids) process.kill(pid, 'SIGSTOP');
  launcher.kill('SIGKILL');
  const milliseconds = await goneAfter(pids);
  if (milliseconds === undefined) for (const pid of pids) process.kill(pid, 'SIGKILL');
  assert.notEqual(milliseconds, undefined, 'stopped ranks were left behind');
  assert.deepEqual(folder.left(), []);
});
