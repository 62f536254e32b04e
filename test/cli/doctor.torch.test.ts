// [Smoke: what doctor says of PyTorch]
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { measureAll } from '../../src/cli/doctor/command';
import { checkTorch } from '../../src/cli/doctor/torch-checks';
import { findTorch } from '../../src/torch/find-python';

test('the doctor imports the PyTorch of SHARDLAB_TORCH_PYTHON, and names its version and devices', async () => {
  const python = findTorch(undefined);
  const [versions, devices] = await checkTorch(process.env);
  assert.equal(versions.status, 'good', versions.found);
  assert.match(versions.found, /^torch \d+\.\d+\.\d+\S*, Python 3\.\d+\.\d+/);
  assert.ok(versions.found.endsWith(`(${python})`));
  assert.notEqual(devices?.status, 'bad', devices?.found);
  assert.deepEqual(Object.keys(devices?.facts ?? {}).sort(), ['cuda', 'gpus', 'nccl']);
});

test('an import of PyTorch that takes too long is ended and reported', async () => {
  const checks = await checkTorch(process.env, { patienceMilliseconds: 1 });
  const { status, found } = checks.at(-1) ?? checks[0];
  assert.equal(status, 'bad');
  assert.match(found, /it takes longer than 0\.001 s/);
});

test("a document's packages are looked for in the Python that has PyTorch", async () => {
  const probes = [
    { kind: 'torch' },
    { kind: 'python' },
    { kind: 'package', name: 'safetensors' },
    { kind: 'package', name: 'fairscale-of-nobody' },
  ] as const;
  const [torch, python, safetensors, missing] = await measureAll(probes, { env: process.env, cwd: '.' });
  assert.match(torch?.here ?? '', /^torch \d/);
  assert.match(python?.here ?? '', /^Python 3\./);
  assert.match(safetensors?.here ?? '', /^safetensors \d/);
  assert.deepEqual(missing, { here: 'not installed', isPresent: false });
});
