import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { jupyterPython } from '../../src/cli/install/python';
import { shardlab } from './run-command';

const folder = mkdtempSync(join(tmpdir(), 'shardlab-calibrate-'));
after(() => rmSync(folder, { recursive: true, force: true }));

const python = jupyterPython(process.env);

function hasTorch(): boolean {
  try {
    execFileSync(python, ['-c', 'import torch'], { stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
}

test('the program measures a CPU from end to end, and a plan can use the results', {
  skip: !hasTorch() && `${python} has no torch; SHARDLAB_PYTHON names one that has`,
  timeout: 300_000,
}, async () => {
  const argv = ['doctor', '--calibrate', '--device', 'cpu', '--out', 'cpu.json'];
  const { status, stderr } = await shardlab(argv, { cwd: folder });
  assert.equal(status, 0, stderr);
  const { measured, gemmTflops, linkGBps, notes } = JSON.parse(
    readFileSync(join(folder, 'cpu.json'), 'utf8'),
  );
  assert.ok(gemmTflops > 1e-4 && gemmTflops < 100);
  assert.ok(linkGBps > 0);
  assert.equal(measured.all_reduce.length, 2);
  assert.match(notes[0], /measured on a CPU/);
  const planned = await shardlab(['plan', 'gpt2', '--calibration', 'cpu.json'], { cwd: folder });
  assert.equal(planned.status, 0, planned.stderr);
});
