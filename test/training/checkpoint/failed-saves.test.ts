import assert from 'node:assert/strict';
import fs from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { setTimeout } from 'node:timers/promises';
import { prepareFolder } from '../../../src/training/checkpoint/format/checkpoint-folder';
import { processMark } from '../../../src/training/checkpoint/format/process-mark';
import { loadCheckpoint } from '../../../src/training/checkpoint/load/load-checkpoint';
import { committed, leaveSave } from '../../../src/training/checkpoint/save/commit';
import type { TrainingState } from '../../../src/training/checkpoint/state/training-state';
import { testEngine } from '../../support/wasm-test-engine';
import { directSink, soloCheckpointer, soloState } from './solo';
import { differences, readCheckpoint } from './state-files';

const root = fs.mkdtempSync(join(tmpdir(), 'shardlab-failed-saves-'));
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

test("a save refuses a folder of other files; the user's files in a checkpoint stay", async () => {
  const mine = join(root, 'mine');
  fs.mkdirSync(mine);
  fs.writeFileSync(join(mine, 'thesis.txt'), '');
  await assert.rejects(
    soloCheckpointer().save(state, mine),
    /holds thesis\.txt and no checkpoint of shardlab.*choose another/,
  );
  assert.deepEqual(fs.readdirSync(mine), ['thesis.txt']);
  const kept = join(root, 'kept');
  fs.cpSync(good, kept, { recursive: true });
  fs.writeFileSync(join(kept, 'config.json'), '{}');
  await soloCheckpointer().save(state, kept);
  assert.deepEqual(
    fs.readdirSync(kept).filter((name) => !/trainer_state|checksums|optimizer/.test(name)),
    ['config.json', 'model.safetensors', 'model.safetensors.index.json'],
  );
  assert.deepEqual(differences(readCheckpoint(kept), readCheckpoint(good)), []);
});

test('a save into a link to a folder writes into that folder, and the link stays', async () => {
  const disk = join(root, 'disk');
  fs.mkdirSync(disk);
  fs.cpSync(good, join(disk, 'old'), { recursive: true });
  fs.rmSync(join(disk, 'old', 'checksums.json'));
  fs.symlinkSync(join('disk', 'old'), join(root, 'to-old'));
  fs.symlinkSync('to-old', join(root, 'to-link'));
  fs.symlinkSync(join('disk', 'new'), join(root, 'to-new'));
  for (const link of ['to-link', 'to-new']) {
    await soloCheckpointer().save(state, join(root, link));
    assert.ok(fs.lstatSync(join(root, link)).isSymbolicLink());
    loadCheckpoint(state, join(root, link));
  }
  assert.deepEqual(fs.readdirSync(disk), ['new', 'old']);
  assert.ok(fs.existsSync(join(disk, 'old', 'checksums.json')));
  // A save that was killed between its two renames leaves the link without a folder.
  fs.renameSync(join(disk, 'old'), join(disk, 'old.previous-1-1-0'));
  loadCheckpoint(state, join(root, 'to-old'));
  fs.symlinkSync('loop', join(root, 'loop'));
  await assert.rejects(soloCheckpointer().save(state, join(root, 'loop')), { code: 'IO' });
});

test('a save that was killed between its two renames is loaded, and the next save cleans it up', async () => {
  const folder = join(root, 'renamed');
  fs.cpSync(good, `${folder}.previous-1-1-0`, { recursive: true });
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
    /maxShardBytes is 0, but must be the largest size of a file/,
  );
  const type = 'LOCAL_STATE_DICT' as 'FULL_STATE_DICT'; // as in a cell that is not type-checked
  await assert.rejects(soloCheckpointer().save(state, good, { type }), {
    code: 'CONFIG',
    message: /a save: type is "LOCAL_STATE_DICT", but must be .*flat parameters/,
  });
});

test('an error that occurs when a file is closed is reported like an error of a write', async () => {
  const folder = join(root, 'closed');
  let numFailures = 1;
  const closeSync = (descriptor: number): void => {
    fs.closeSync(descriptor);
    if (numFailures-- > 0)
      throw Object.assign(new Error('EDQUOT: quota exceeded, close'), { code: 'EDQUOT' });
  };
  const checkpointer = soloCheckpointer({ startSink: directSink({ ...fs, closeSync }) });
  await assert.rejects(checkpointer.save(state, folder), {
    code: 'IO',
    message: /cannot write .*closed.*your disk quota is used up/,
  });
  assert.deepEqual(
    fs.readdirSync(root).filter((name) => name.startsWith('closed')),
    [],
  );
});

test('two processes that create the same missing parent folder do not disturb each other', () => {
  const folder = join(root, 'parent', 'ckpt');
  const mkdirSync = ((path: string) => {
    fs.mkdirSync(path);
    // Another process was faster.
    if (path.endsWith('parent')) fs.mkdirSync(path);
  }) as typeof fs.mkdirSync;
  prepareFolder({ ...fs, mkdirSync }, folder, 'x');
  assert.deepEqual(fs.readdirSync(join(root, 'parent')), ['ckpt.saving-x']);
});
