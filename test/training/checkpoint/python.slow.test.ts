import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { loadCheckpoint } from '../../../src/training/checkpoint/load/load-checkpoint';
import { readSafetensors } from '../../support/safetensors';
import { testEngine } from '../../support/wasm-test-engine';
import { soloCheckpointer, soloState } from './solo';
import { differences, readCheckpoint } from './state-files';

const python = process.env.SHARDLAB_PYTHON;
const skip = python === undefined ? 'there is no Python here (npm test --no-python)' : false;
const folder = fs.mkdtempSync(join(tmpdir(), 'shardlab-interop-'));
after(() => fs.rmSync(folder, { recursive: true, force: true }));

function run(code: string, ...args: readonly string[]): unknown {
  const result = spawnSync(python ?? '', ['-c', code, ...args], { encoding: 'utf8' });
  assert.equal(result.status, 0, result.stderr);
  return JSON.parse(result.stdout);
}

/** Names, shapes and sums of all tensors of a folder, and the metadata. */
const READ = `
import sys, json, glob
from safetensors import safe_open
found = {}
for name in sorted(glob.glob(sys.argv[1] + '/model*.safetensors')):
    with safe_open(name, framework='np') as file:
        assert file.metadata()['format'] == 'pt'
        for key in file.keys():
            value = file.get_tensor(key)
            found[key] = [list(value.shape), str(value.dtype), value.astype('float64').sum()]
print(json.dumps(found))
`;

/** The same tensors in files written by numpy, with an index. */
const WRITE = `
import sys, json, os
import numpy as np
from safetensors.numpy import load_file, save_file
source, target = sys.argv[1:]
os.mkdir(target)
tensors = load_file(source + '/model.safetensors')
names = sorted(tensors)
weight_map = {}
for i, part in enumerate([names[::2], names[1::2]]):
    file = f'model-0000{i + 1}-of-00002.safetensors'
    save_file({name: tensors[name] for name in part}, f'{target}/{file}', metadata={'format': 'pt'})
    weight_map.update({name: file for name in part})
index = {'metadata': {'total_size': sum(t.nbytes for t in tensors.values())}, 'weight_map': weight_map}
json.dump(index, open(target + '/model.safetensors.index.json', 'w'), indent=2, sort_keys=True)
save_file({'h': np.array([1.5, -2, 65504], 'float16'), 'i': np.array([[-7, 2**31 - 1]], 'int32')}, target + '/types.safetensors')
print('null')
`;

test("Python's safetensors opens files that are written here, and the reverse", { skip }, async () => {
  const state = soloState(await testEngine());
  for (const [name, dtype] of [
    ['whole', 'F32'],
    ['half', 'F16'],
  ] as const) {
    const path = join(folder, name);
    await soloCheckpointer().save(state, path, { type: 'FULL_STATE_DICT', dtype });
    // READ prints such an object.
    const found = run(READ, path) as Record<string, [number[], string, number]>;
    assert.deepEqual(Object.keys(found).sort(), [...state.model.namedParameters().keys()].sort());
    for (const [key, values] of readCheckpoint(path, ['model'])) {
      const [shape, type, sum] = found[key] ?? [];
      assert.deepEqual(shape, state.model.namedParameters().get(key)?.shape);
      assert.equal(type, dtype === 'F32' ? 'float32' : 'float16');
      const own = values.reduce((total, value) => total + value, 0);
      assert.ok(Math.abs((sum ?? Number.NaN) - own) < 1e-9 * values.length);
    }
  }
  const theirs = join(folder, 'theirs');
  run(WRITE, join(folder, 'whole'), theirs);
  assert.deepEqual(
    differences(readCheckpoint(theirs, ['model']), readCheckpoint(join(folder, 'whole'), ['model'])),
    [],
  );
  assert.equal(loadCheckpoint({ ...state, optimizer: null }, theirs).state, null);
  const types = readSafetensors(join(theirs, 'types.safetensors'));
  assert.deepEqual([...(types.get('h')?.values ?? [])], [1.5, -2, 65504]);
  assert.deepEqual([...(types.get('i')?.values ?? [])], [-7, 2 ** 31 - 1]);
});
