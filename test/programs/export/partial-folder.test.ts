import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { withTemporaryFolder } from '../../../src/core/regular-file';
import { fillFolder, isEmptyFolder } from '../../../src/programs/bundle/partial-folder';

const base = fs.mkdtempSync(join(tmpdir(), 'shardlab-partial-'));
after(() => fs.rmSync(base, { recursive: true, force: true }));

const MODULE = require.resolve('../../../src/programs/bundle/partial-folder');

/** Begins to fill a folder in a process that is killed meanwhile. */
function killed(out: string): void {
  const program = `require(${JSON.stringify(MODULE)}).fillFolder(${JSON.stringify(out)}, (folder) => {
    require('node:fs').writeFileSync(folder + '/half', 'x');
    process.kill(process.pid, 'SIGKILL');
  })`;
  assert.equal(spawnSync(process.execPath, ['-e', program]).signal, 'SIGKILL');
}

const fill = (out: string): string =>
  fillFolder(out, (folder) => {
    fs.mkdirSync(join(folder, 'data'));
    fs.writeFileSync(join(folder, 'data', 'a'), '1');
    return 'done';
  });

test('a killed export leaves no folder, and the next one removes what it left', () => {
  const out = join(base, 'new', 'bundle');
  killed(out);
  assert.ok(!fs.existsSync(out));
  assert.equal(fs.readdirSync(join(base, 'new')).length, 1);
  assert.equal(fill(out), 'done');
  assert.deepEqual(fs.readdirSync(join(base, 'new')), ['bundle']);
  assert.deepEqual(fs.readdirSync(out), ['data']);
});

test('a killed export into an empty folder leaves it as good as empty', () => {
  const out = join(base, 'empty');
  fs.mkdirSync(out);
  killed(out);
  assert.ok(isEmptyFolder(out));
  fill(out);
  assert.deepEqual(fs.readdirSync(out), ['data']);
  assert.ok(!isEmptyFolder(out));
});

test('a failure leaves nothing, and the partial folder of a running process is not removed', () => {
  const out = join(base, 'failed');
  const fail = (): never => {
    throw new Error('full');
  };
  assert.throws(() => fillFolder(out, fail), /full/);
  assert.ok(!fs.existsSync(out));
  fillFolder(out, () => {
    fill(join(base, 'other'));
    assert.equal(fs.readdirSync(base).filter((name) => name.startsWith('.failed.')).length, 1);
  });
});

test('a temporary folder that cannot be removed does not hide why the work failed', async () => {
  const path = join(base, 'temporary');
  fs.mkdirSync(path);
  const file = join(path, 'file');
  fs.writeFileSync(file, '');
  const failing = withTemporaryFolder(join(file, 'sub'), () => Promise.reject(new Error('no folder here')));
  await assert.rejects(failing, { message: 'no folder here' });
  const made = join(path, 'made');
  assert.equal(
    await withTemporaryFolder(made, async () => {
      fs.mkdirSync(made);
      return 7;
    }),
    7,
  );
  assert.deepEqual(fs.readdirSync(path), ['file']);
});
