import assert from 'node:assert/strict';
import fs from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { setTimeout } from 'node:timers/promises';
import { prepareFolder } from '../../src/checkpoint/format/checkpoint-folder';
import { indexText, parseIndex } from '../../src/checkpoint/format/index-file';
import { processMark } from '../../src/checkpoint/format/process-mark';
import { SafetensorsFile } from '../../src/checkpoint/format/safetensors-file';
import { loadCheckpoint } from '../../src/checkpoint/load/load-checkpoint';
import { committed, leaveSave } from '../../src/checkpoint/save/commit';
import type { TrainingState } from '../../src/checkpoint/state/training-state';
import { ShardlabError } from '../../src/core/errors';
import { testEngine } from '../support/wasm-test-engine';
import { directSink, soloCheckpointer, soloState } from './solo';
import { differences, readCheckpoint } from './state-files';

const root = fs.mkdtempSync(join(tmpdir(), 'shardlab-damage-'));
after(() => fs.rmSync(root, { recursive: true, force: true }));

const good = join(root, 'good');
let state: TrainingState;
before(async () => {
  state = soloState(await testEngine());
  await soloCheckpointer().save(state, good, { type: 'FULL_STATE_DICT', maxShardBytes: 3000 });
});

const FULL = { code: 'IO', message: 'the disk is full' } as const;
const savedState = {
  format: 'shardlab checkpoint',
  version: 1,
  id: 'id',
  state_dict_type: 'SHARDED_STATE_DICT',
  world: 2,
  optimizer: null,
  trainer: null,
} as const;

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
    /has no tensor ln_f\.bias, which .*index\.json says|header .* was damaged/,
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

test("a save refuses a folder of other files; the user's files in a checkpoint stay", async () => {
  const mine = join(root, 'mine');
  fs.mkdirSync(mine);
  fs.writeFileSync(join(mine, 'thesis.txt'), '');
  await assert.rejects(
    soloCheckpointer().save(state, mine),
    /holds thesis\.txt and no checkpoint of shardlab.*choose another/,
  );
  assert.deepEqual(fs.readdirSync(mine), ['thesis.txt']);
  const kept = damaged('kept', (path) => fs.writeFileSync(join(path, 'config.json'), '{}'));
  await soloCheckpointer().save(state, kept);
  assert.deepEqual(
    fs.readdirSync(kept).filter((name) => !/trainer_state|checksums|optimizer/.test(name)),
    ['config.json', 'model.safetensors', 'model.safetensors.index.json'],
  );
  assert.deepEqual(differences(readCheckpoint(kept), readCheckpoint(good)), []);
});

test('a save that was killed between its two renames is loaded, and the next save cleans it up', async () => {
  const folder = damaged('renamed', () => undefined);
  fs.renameSync(folder, `${folder}.previous-1-1-0`);
  fs.cpSync(good, `${folder}.saving-1-1-0`, { recursive: true });
  assert.equal(loadCheckpoint(state, folder).folder, `${folder}.saving-1-1-0`);
  prepareFolder(fs, folder, 'x');
  assert.deepEqual(
    fs.readdirSync(root).filter((name) => name.startsWith('renamed')),
    ['renamed', 'renamed.saving-x'],
  );
  loadCheckpoint(state, folder);
});

test('the error of a save names another process that saves into the same folder', async () => {
  const folder = join(root, 'shared');
  fs.mkdirSync(`${folder}.saving-${processMark()}-7`);
  await assert.rejects(
    soloCheckpointer().save(state, folder),
    new RegExp(`is running in process ${process.pid}; wait`),
  );
});

test('a save does not wait for a rank whose process has ended', async () => {
  const folder = join(root, 'dead');
  fs.mkdirSync(`${folder}.saving-id`);
  const commit = { folder, id: 'id', members: [processMark(), '4194304-1'], rank: 1, documents: null };
  const waiting = committed(fs, { ...commit, members: ['4194304-1', processMark()] });
  await assert.rejects(waiting, {
    code: 'RANK_DIED',
    message: /rank 0's process ended before the save into .*dead was complete/,
  });
});

test('a save that was interrupted while it copied leaves nothing, and the next save works', async () => {
  const folder = join(root, 'halted');
  let isCopying = false;
  const checkpointer = soloCheckpointer({
    startSink: (spec) => {
      const sink = directSink(fs)(spec);
      const write = (): Promise<void> => {
        isCopying = true;
        return new Promise(() => undefined);
      };
      return { write, fail: (error) => sink.fail(error), finish: () => sink.finish() };
    },
  });
  void checkpointer.start(state, folder); // never resolves: the interrupted code does not continue
  assert.ok(isCopying && fs.readdirSync(root).some((name) => name.startsWith('halted.saving-')));
  state.engine.recover();
  while (fs.readdirSync(root).some((name) => name.startsWith('halted'))) await setTimeout(1);
  await soloCheckpointer().save(state, folder);
  assert.deepEqual(
    fs.readdirSync(root).filter((name) => name.startsWith('halted')),
    ['halted'],
  );
});

test('all ranks read why a save failed, and then the reason is deleted', async () => {
  const folder = join(root, 'told');
  const members = [processMark(), processMark(), processMark()];
  const commit = { folder, id: 'id', members, documents: null };
  fs.mkdirSync(`${folder}.saving-id`);
  const { documents: _, ...save } = { ...commit, rank: 2 };
  leaveSave(fs, save, FULL);
  fs.writeFileSync(join(`${folder}.saving-id`, 'part-0.json'), '{"files":{}}');
  fs.writeFileSync(join(`${folder}.saving-id`, 'part-1.json'), '{"files":{}}');
  const documents = { indices: new Map(), state: savedState, blockElements: 16 };
  const ranks = [0, 1].map((rank) =>
    committed(fs, { ...commit, rank, documents: rank === 0 ? documents : null }),
  );
  for (const rank of ranks) await assert.rejects(rank, { code: 'IO', message: '[rank 2] the disk is full' });
  assert.deepEqual(
    fs.readdirSync(root).filter((name) => name.startsWith('told')),
    [],
  );
});

test('a save ends with an error if its folder is deleted meanwhile', async () => {
  const folder = join(root, 'gone');
  const members = [processMark(), processMark()];
  const documents = { indices: new Map(), state: savedState, blockElements: 16 };
  await assert.rejects(committed(fs, { folder, id: 'id', members, rank: 0, documents }), {
    code: 'IO',
    message: /was deleted while a checkpoint was written into it/,
  });
});

test('the error of a save that is not awaited becomes a warning', async () => {
  const warnings: string[] = [];
  const broken = { ...fs, fsyncSync: () => assert.fail('EIO: the disk is broken') };
  const checkpointer = soloCheckpointer({
    warn: (text) => warnings.push(text),
    startSink: directSink(broken),
  });
  await checkpointer.start(state, join(root, 'broken'));
  while (warnings.length === 0) await setTimeout(1);
  assert.match(warnings[0] ?? '', /the save into .*broken failed: .*cannot write/);
});

test('invalid shard sizes and state dict types are refused', async () => {
  await assert.rejects(
    soloCheckpointer().save(state, good, { maxShardBytes: 0 }),
    /maxShardBytes is 0; give/,
  );
  const type = 'LOCAL_STATE_DICT' as 'FULL_STATE_DICT'; // as in a cell that is not type-checked
  await assert.rejects(soloCheckpointer().save(state, good, { type }), { code: 'CONFIG' });
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
