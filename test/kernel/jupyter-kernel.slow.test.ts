import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { kernelSpec } from '../../src/cell/kernelspec';
import { findInstallation } from '../../src/core/installation';
import { KERNEL_MAIN } from './jupyter-client';

const python = process.env.SHARDLAB_PYTHON;
const skip =
  python === undefined &&
  'SHARDLAB_PYTHON does not name a Python with jupyter_client and jupyter_kernel_test';

describe('jupyter_kernel_test', { skip }, () => {
  it('passes all of its 12 tests', () => {
    const installation = findInstallation();
    const folder = mkdtempSync(join(tmpdir(), 'shardlab-jupyter-'));
    const place = join(folder, 'kernels', 'shardlab-under-test');
    mkdirSync(place, { recursive: true });
    const spec = kernelSpec({ node: process.execPath, main: KERNEL_MAIN });
    writeFileSync(join(place, 'kernel.json'), JSON.stringify(spec));
    try {
      const script = join(installation, 'test', 'kernel', 'jupyter-kernel-test.py');
      const { stderr } = spawnSync(python ?? '', [script, '-v'], {
        encoding: 'utf8',
        timeout: 120_000,
        env: { ...process.env, JUPYTER_PATH: folder, SHARDLAB_KERNEL: 'shardlab-under-test' },
      });
      assert.match(stderr, /Ran 12 tests/);
      assert.match(stderr, /\nOK\s*$/, stderr);
    } finally {
      rmSync(folder, { recursive: true });
    }
  });
});
