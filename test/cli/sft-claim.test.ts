import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { hostname, tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { claimFolder } from '../../src/cli/sft/command';
import { OutputFolder } from '../../src/session/run/output-folder';
import { processMark } from '../../src/training/checkpoint/format/process-mark';

const folder = mkdtempSync(join(tmpdir(), 'shardlab-claim-'));
after(() => rmSync(folder, { recursive: true, force: true }));
const none = (line: string): void => assert.fail(line);

/** The mark of a process that has ended. */
function deadMark(): string {
  const { pid } = spawnSync(process.execPath, ['-e', '']);
  return `${pid}-1`;
}

test('a folder has one training: a second one is refused, and a killed one is forgotten', () => {
  const path = join(folder, 'one');
  mkdirSync(path);
  const dead = join(path, `.training-${deadMark()}`);
  writeFileSync(dead, hostname());
  const release = claimFolder(path, none);
  assert.ok(!existsSync(dead));
  assert.throws(
    () => claimFolder(path, none),
    new RegExp(
      `process ${process.pid} writes its training into .*one; wait for its end, or give another --output_dir`,
    ),
  );
  release();
  // Another process that runs: the parent of this one.
  const other = join(path, `.training-${processMark(process.ppid)}`);
  writeFileSync(other, hostname());
  assert.throws(() => claimFolder(path, none), new RegExp(`process ${process.ppid} writes its training`));
  assert.deepEqual(readdirSync(path), [other.slice(path.length + 1)]);
  const lines: string[] = [];
  writeFileSync(other, 'elsewhere');
  claimFolder(path, (line) => lines.push(line))();
  assert.match(
    lines.join(),
    /process \d+ of elsewhere began a training in .*; if the process still runs, end it/,
  );
});

test('a folder that a claim made is removed at its end, unless something is in it', () => {
  const path = join(folder, 'a', 'new');
  claimFolder(path, none)();
  assert.ok(!existsSync(path));
  const release = claimFolder(path, none);
  writeFileSync(join(path, 'logging.jsonl'), '');
  release();
  assert.deepEqual(readdirSync(path), ['logging.jsonl']);
});

test('what killed processes began is deleted, and files of running processes and with other names stay', () => {
  const path = join(folder, 'killed');
  const output = new OutputFolder(path);
  output.recover();
  const dead = deadMark();
  const names = [
    `checkpoint-2.saving-${dead}-0`,
    `checkpoint-3.failed-${dead}-1`,
    'checkpoint-1.deleted',
    `last.whole-${dead}`,
    `last.whole-${dead}.saving-${dead}-4`,
    `best-merged.saving-${dead}`,
  ];
  const kept = [`last-merged.saving-${processMark()}`, 'notes.saving', 'last'];
  for (const name of [...names, ...kept]) mkdirSync(join(path, name), { recursive: true });
  output.recover();
  assert.deepEqual(readdirSync(path).sort(), kept.sort());
});
