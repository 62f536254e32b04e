import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it, test } from 'node:test';
import { kernelSpec } from '../../src/cell/kernelspec';
import { findInstallation } from '../../src/core/installation';
import { KERNEL_MAIN } from './jupyter-client';

const NAME = 'shardlab-under-test';
const python = process.env.SHARDLAB_PYTHON;
const skip =
  python === undefined &&
  'SHARDLAB_PYTHON does not name a Python with jupyter_client and jupyter_kernel_test';

/** Runs a script of this folder with a kernelspec of the kernel under test. */
function runWithKernel(script: string, ...args: readonly string[]) {
  const folder = mkdtempSync(join(tmpdir(), 'shardlab-jupyter-'));
  const place = join(folder, 'kernels', NAME);
  mkdirSync(place, { recursive: true });
  const spec = kernelSpec({ node: process.execPath, main: KERNEL_MAIN });
  writeFileSync(join(place, 'kernel.json'), JSON.stringify(spec));
  try {
    return spawnSync(python ?? '', [join(findInstallation(), 'test', 'kernel', script), ...args], {
      encoding: 'utf8',
      timeout: 180_000,
      env: { ...process.env, JUPYTER_PATH: folder, SHARDLAB_KERNEL: NAME, SHARDLAB_HISTORY: '' },
    });
  } finally {
    rmSync(folder, { recursive: true });
  }
}

describe('jupyter_kernel_test', { skip }, () => {
  it('passes all of its 12 tests', () => {
    const { stderr } = runWithKernel('jupyter-kernel-test.py', '-v');
    assert.match(stderr, /Ran 12 tests/);
    assert.match(stderr, /\nOK\s*$/, stderr);
  });
});

test("each manner of the kernel is seen by Jupyter's client", { skip }, () => {
  const { stdout, stderr } = runWithKernel('jupyter-client-rows.py', NAME);
  assert.equal(stdout, 'all rows hold\n', stderr);
});
