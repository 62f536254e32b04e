import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { promisify } from 'node:util';
import { valuesHere } from '../support/cases';

const LAUNCH = join(__dirname, '..', '..', 'src', 'session', 'run', 'launch.js');

/** A program that prints the error of a launch. */
const program = (options: object): string => `
  const { launch } = require(${JSON.stringify(LAUNCH)});
  launch(${JSON.stringify(options)}).then(
    (job) => job.shutdown(),
    ({ code, message }) => console.log(JSON.stringify({ code, message })),
  );`;

/** The error of a launch in a process with a limit. */
async function launchError(
  limit: string,
  options: object = { ranks: 2, blas: 'none' },
): Promise<{ code: string; message: string }> {
  const limited = ['-c', `${limit}; exec "$0" -e "$1"`, process.execPath, program(options)];
  const { stdout } = await promisify(execFile)('/bin/sh', limited);
  return JSON.parse(stdout);
}

describe('the error of a launch that reaches a limit', {
  skip: !existsSync('/bin/sh') && 'needs a shell',
}, () => {
  it('names the number of open files', async () => {
    for (const files of valuesHere([24, 28, 32], [0])) {
      const { code, message } = await launchError(`ulimit -n ${files}`);
      assert.equal(code, 'LAUNCH');
      assert.match(
        message,
        new RegExp(`this process may have at most ${files} \\(ulimit -n\\): raise that limit`),
      );
    }
  });

  it('names the number of open files, not the Python, for ranks of PyTorch', async () => {
    // Any program would do, because none can be started.
    const { code, message } = await launchError('ulimit -n 24', {
      ranks: 2,
      engine: 'torch',
      python: process.execPath,
    });
    assert.equal(code, 'LAUNCH');
    assert.match(message, /this process may have at most 24 \(ulimit -n\): raise that limit/);
  });

  it('names the limit on reserved addresses', async () => {
    const { code, message } = await launchError('ulimit -v 8000000');
    assert.equal(code, 'OUT_OF_MEMORY');
    assert.match(message, /may not reserve addresses .*ulimit -v unlimited/);
  });
});
