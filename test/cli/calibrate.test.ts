import assert from 'node:assert/strict';
import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { shardlab } from './run-command';

const folder = mkdtempSync(join(tmpdir(), 'shardlab-calibrate-'));
after(() => rmSync(folder, { recursive: true, force: true }));

/** A stand-in for Python that prints the measurements of a machine with GPUs. */
function python(name: string, printed: string, status = 0): string {
  const path = join(folder, name);
  writeFileSync(path, `#!/bin/sh\ncat <<'END'\n${printed}\nEND\nexit ${status}\n`);
  chmodSync(path, 0o755);
  return path;
}

const MEASURED = {
  device: 'cuda',
  name: 'NVIDIA H100 80GB HBM3',
  torch: '2.9.0',
  memory_bytes: 85e9,
  gpus: 8,
  gemm: [{ m: 8192, n: 8192, k: 8192, dtype: 'torch.bfloat16', tflops: 700 }],
  memory: [{ op: 'copy', tb_s: 2.9 }],
  launch_us: 3,
  all_reduce: [{ bytes: 268_435_456, seconds: 1e-3, bus_gb_s: 400 }],
};

test('measurements are fitted and stored, and plan reads them', async () => {
  const machine = python('h100', `a library's greeting\n${JSON.stringify(MEASURED)}`);
  const calibrated = await shardlab(['doctor', '--calibrate', '--python', machine, '--out', 'h100.json'], {
    cwd: folder,
  });
  assert.equal(calibrated.status, 0, calibrated.stderr);
  assert.match(calibrated.stdout, /gemmTflops +700\.0 +published 794/);
  assert.equal(JSON.parse(readFileSync(join(folder, 'h100.json'), 'utf8')).like, 'H100-80G');
  const argv = ['plan', 'llama3-8b', '--hardware', 'H100-80G', '--json'];
  const own = await shardlab([...argv, '--calibration', 'h100.json'], { cwd: folder });
  const published = await shardlab(argv, { cwd: folder });
  assert.equal(own.status, 0, own.stderr);
  assert.ok(JSON.parse(own.stdout).iteration_ms > JSON.parse(published.stdout).iteration_ms);
});

test('without CUDA, without torch and without a Python the error is one sentence', async () => {
  for (const [path, said] of [
    [python('cpu', '{"missing": "cuda", "torch": "2.9.0"}'), /finds no CUDA GPU; .*--device cpu/],
    [
      python('bare', '{"missing": "torch", "why": "no module"}'),
      /has no torch; name a Python that has torch with --python/,
    ],
    [python('odd', 'Segmentation fault'), /ended with 'Segmentation fault' instead of its result/],
    [join(folder, 'nowhere'), /nowhere does not start .*name another Python with --python/],
  ] as const) {
    const { status, stderr } = await shardlab(['doctor', '--calibrate', '--python', path]);
    assert.equal(status, 1);
    assert.match(stderr, said);
    assert.equal(stderr.trim().split('\n').length, 2);
  }
});

test('options of --calibrate are refused without it', async () => {
  const { status, stderr } = await shardlab(['doctor', '--out', 'x.json']);
  assert.equal(status, 2);
  assert.match(stderr, /--out belongs to --calibrate/);
});
