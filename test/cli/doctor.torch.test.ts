import assert from 'node:assert/strict';
import { test } from 'node:test';
import { checkTorch } from '../../src/cli/doctor/torch-checks';
import { findTorch } from '../../src/job/torch/find-python';

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
