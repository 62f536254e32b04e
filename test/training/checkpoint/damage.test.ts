import assert from 'node:assert/strict';
import fs from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { ShardlabError } from '../../../src/core/errors';
import { indexText, parseIndex } from '../../../src/training/checkpoint/format/index-file';
import { SafetensorsFile } from '../../../src/training/checkpoint/format/safetensors-file';
import { openCatalog } from '../../../src/training/checkpoint/load/catalog';
import { loadCheckpoint } from '../../../src/training/checkpoint/load/load-checkpoint';
import type { TrainingState } from '../../../src/training/checkpoint/state/training-state';
import { testEngine } from '../../support/wasm-test-engine';
import { soloCheckpointer, soloState } from './solo';

const root = fs.mkdtempSync(join(tmpdir(), 'shardlab-damage-'));
after(() => fs.rmSync(root, { recursive: true, force: true }));

const good = join(root, 'good');
let state: TrainingState;
before(async () => {
  state = soloState(await testEngine());
  await soloCheckpointer().save(state, good, { type: 'FULL_STATE_DICT', maxShardBytes: 3000 });
});

/** A copy of the good checkpoint, changed. */
function damaged(name: string, change: (folder: string) => void): string {
  const folder = join(root, name);
  fs.cpSync(good, folder, { recursive: true });
  change(folder);
  return folder;
}

function errorOfLoading(folder: string): ShardlabError {
  try {
    loadCheckpoint(state, folder);
  } catch (error) {
    if (error instanceof ShardlabError) return error;
    throw error;
  }
  throw new Error(`${folder} was loaded`);
}

function shardWith(folder: string, tensor: string): string {
  const names = fs.readdirSync(folder).filter((name) => /^model.*\.safetensors$/.test(name));
  const found = names.find((name) => {
    const file = new SafetensorsFile(join(folder, name));
    file.close();
    return file.header.tensors.has(tensor);
  });
  if (found === undefined) throw new Error(`no shard has ${tensor}`);
  return join(folder, found);
}

test('the error of a damaged byte names file, tensor and offset', () => {
  const tensor = 'blocks.1.fc1.weight';
  let at = 0;
  const folder = damaged('byte', (path) => {
    const file = shardWith(path, tensor);
    const bytes = fs.readFileSync(file);
    const stored = new SafetensorsFile(file);
    at = stored.position(tensor, 21);
    stored.close();
    bytes.writeUInt8(bytes.readUInt8(at) ^ 4, at);
    fs.writeFileSync(file, bytes);
  });
  const { message, details } = errorOfLoading(folder);
  assert.match(
    message,
    /model-.*\.safetensors: tensor blocks\.1\.fc1\.weight was damaged between bytes \d+ and \d+/,
  );
  const offset = Number(details.offset);
  assert.ok(offset <= at && at < offset + 64);
  assert.equal(details.tensor, tensor);
});

test('a damaged header, a cut file and a missing shard are named in their errors', () => {
  const header = damaged('header', (path) => {
    const file = shardWith(path, 'ln_f.weight');
    fs.writeFileSync(
      file,
      fs.readFileSync(file).toString('latin1').replace('ln_f.bias', 'ln_f.bios'),
      'latin1',
    );
  });
  assert.match(
    errorOfLoading(header).message,
    /has no tensor ln_f\.bias, although .*index\.json lists it|header .* was damaged/,
  );
  const cut = damaged('cut', (path) => {
    const file = shardWith(path, 'ln_f.weight');
    fs.truncateSync(file, fs.statSync(file).size - 5);
  });
  assert.match(errorOfLoading(cut).message, /model-.*\.safetensors .*(needs \d+ bytes|was truncated)/);
  const gone = damaged('gone', (path) => fs.rmSync(shardWith(path, 'ln_f.weight')));
  assert.match(
    errorOfLoading(gone).message,
    /model-.*\.safetensors is missing: .*index\.json says that it has /,
  );
});

test('the error of a Git-LFS pointer in place of a shard names git lfs pull', () => {
  const folder = damaged('lfs', (path) =>
    fs.writeFileSync(
      shardWith(path, 'ln_f.weight'),
      'version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 5\n',
    ),
  );
  assert.match(errorOfLoading(folder).message, /model-.*\.safetensors is a Git-LFS pointer.*git lfs pull/);
});

test('names and shapes that do not fit are listed in the error', () => {
  const other = soloState(state.engine, {
    model: { kind: 'gpt', layers: 3, dim: 12, heads: 2, vocab: 37, seq: 8 },
  });
  const loading = (): unknown => loadCheckpoint(other, good);
  assert.throws(
    loading,
    /wte\.weight has shape \[37, 10\] in .*model-.*\.safetensors, the model's is \[37, 12\]/,
  );
  assert.throws(loading, /does not fit the model: .* and \d+ more/);
  const fewer = soloState(state.engine, {
    model: { kind: 'gpt', layers: 1, dim: 10, heads: 2, vocab: 37, seq: 8 },
  });
  assert.throws(() => loadCheckpoint(fewer, good), /blocks\.1\..* is unknown/);
});

test('the error of a path that is not a checkpoint says what is there', () => {
  assert.match(
    errorOfLoading(join(root, 'nowhere')).message,
    /there is no folder .*nowhere; in .* there is .*good/,
  );
  const empty = join(root, 'empty');
  fs.mkdirSync(empty);
  assert.match(errorOfLoading(empty).message, /is not a checkpoint: it has neither .* but nothing/);
  const pickles = join(root, 'pickles');
  fs.mkdirSync(pickles);
  fs.writeFileSync(join(pickles, 'pytorch_model.bin'), 'PK');
  assert.match(
    errorOfLoading(pickles).message,
    /torch pickles are not read; convert each: python -c ".*pytorch_model\.bin/,
  );
  const noOptimizer = damaged('weights', (path) => fs.rmSync(join(path, 'trainer_state.json')));
  assert.match(errorOfLoading(noOptimizer).message, /has no optimizer states.*load it without an optimizer/);
  assert.equal(loadCheckpoint({ ...state, optimizer: null }, noOptimizer).state, null);
});

test('the error of a path that no file can have names the path', (context) => {
  const folder = fs.mkdtempSync(join(tmpdir(), 'paths-'));
  context.after(() => fs.rmSync(folder, { recursive: true }));
  fs.symlinkSync('loop', join(folder, 'loop'));
  fs.writeFileSync(join(folder, 'file'), '');
  for (const name of ['loop', 'file/x', 'a\0b', 'n'.repeat(300)]) {
    assert.throws(
      () => openCatalog(join(folder, name), 'model'),
      { code: 'IO', message: /^cannot read / },
      name,
    );
  }
});

test("Hugging Face's index round-trips, and an index written here names every tensor", () => {
  const text = `{
  "metadata": {
    "total_parameters": 3,
    "total_size": 12
  },
  "weight_map": {
    "a.weight": "model-00001-of-00002.safetensors",
    "b.weight": "model-00002-of-00002.safetensors"
  }
}
`;
  assert.equal(indexText(parseIndex(text, 'x')), text);
  const file = join(good, 'model.safetensors.index.json');
  const index = parseIndex(fs.readFileSync(file, 'utf8'), file);
  const shards = fs.readdirSync(good).filter((name) => name.startsWith('model-'));
  assert.ok(shards.length > 2 && shards[0] === `model-00001-of-0000${shards.length}.safetensors`);
  assert.ok('weight_map' in index);
  assert.deepEqual(Object.keys(index.weight_map).sort(), [...state.model.namedParameters().keys()].sort());
  assert.equal(index.metadata?.total_size, 4 * state.model.numParams());
});
