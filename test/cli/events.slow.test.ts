import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { readEventFile } from '../../src/ledger/event-file';
import { temporaryFolder } from '../session/job-fixture';
import { type Ran, shardlab } from './run-command';

const RUN = ['run', 'tiny', '--ranks', '1', '--steps', '2'];
const COMMAND = join(__dirname, '..', '..', 'src', 'cli', 'main.js');

test('an event file that cannot be written ends the run before its first step, and the error names its path', {
  skip: !existsSync('/dev/full') && 'there is no /dev/full here',
}, async () => {
  for (const [path, reason] of [
    ['/dev/full', /cannot write the event file \/dev\/full: ENOSPC.*free some space/],
    ['/nonexistent/run.jsonl', /cannot create the event file \/nonexistent\/run\.jsonl: ENOENT/],
  ] as const) {
    const { status, stdout, stderr } = await shardlab([...RUN, '--events', path]);
    assert.equal(status, 1);
    assert.equal(stdout, '');
    assert.match(stderr, reason);
    assert.doesNotMatch(stderr, /step 2\/2/);
  }
});

test('a full disk loses nothing of the result, and the event file says where it is cut off', {
  skip: process.platform !== 'linux' && 'the limit of a file counts in other units elsewhere',
}, async (context) => {
  const path = join(temporaryFolder(context).path, 'run.jsonl');
  const { status, stdout, stderr } = await withFileLimit(16, [...RUN, '--json', '--events', path]);
  assert.equal(status, 1);
  assert.equal(JSON.parse(stdout).losses.length, 2);
  assert.match(stderr, /shardlab: cannot write the event file .*EFBIG.*free some space or name another path/);
  assert.ok(readFileSync(path).length > 0);
  assert.throws(() => readEventFile(path), { code: 'IO', message: /the last line is incomplete/ });
});

/** Runs the command with a limit on the size of files, in blocks of 512 bytes, as on a disk that fills up. */
function withFileLimit(blocks: number, argv: readonly string[]): Promise<Ran> {
  const script = `ulimit -f ${blocks}; exec "$0" "$@"`;
  return new Promise((resolve) => {
    execFile('/bin/sh', ['-c', script, process.execPath, COMMAND, ...argv], (error, stdout, stderr) => {
      resolve({ status: error === null ? 0 : Number(error.code), stdout, stderr });
    });
  });
}
