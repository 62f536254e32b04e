import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { describe, it } from 'node:test';
import { createJobFolder, removeJobFolder } from '../../../src/launch/control/folder';

const FOLDER = join(__dirname, '..', '..', '..', 'src', 'launch', 'control', 'folder.js');

/** A folder that a launcher leaves when it is killed. */
function leftFolder(): string {
  const program = `
    process.stdout.write(require(${JSON.stringify(FOLDER)}).createJobFolder());
    process.kill(process.pid, 'SIGKILL');`;
  return spawnSync(process.execPath, ['-e', program], { encoding: 'utf8' }).stdout;
}

describe('the folder of a job', () => {
  it('is removed by a later launch if its launcher was killed, and stays while the launcher lives', () => {
    const own = createJobFolder();
    const left = leftFolder();
    writeFileSync(join(left, 'control'), '');
    assert.ok(existsSync(left) && existsSync(own));
    const next = createJobFolder();
    assert.ok(!existsSync(left));
    assert.ok(existsSync(own) && existsSync(next));
    removeJobFolder(own);
    removeJobFolder(next);
  });

  it("stays if its process may live in another container, or if its name is not a job's", () => {
    const [, , mark = ''] = /^(shardlab-)(\d+-\d+)/.exec(basename(leftFolder())) ?? [];
    const foreign = mkdtempSync(join(tmpdir(), `shardlab-${mark}-1-`));
    const other = mkdtempSync(join(tmpdir(), 'shardlab-kernel-'));
    removeJobFolder(createJobFolder());
    assert.deepEqual([existsSync(foreign), existsSync(other)], [true, true]);
    for (const folder of [foreign, other]) rmSync(folder, { recursive: true });
  });
});
