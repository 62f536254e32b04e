import assert from 'node:assert/strict';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { errorOf, resultOf, runActions, tinyConfig } from './runs';
import { differences, readCheckpoint, readDump } from './state-files';

const folder = mkdtempSync(join(tmpdir(), 'shardlab-checkpoint-'));
after(() => rmSync(folder, { recursive: true, force: true }));

test("two ranks save and load, save while they train, and report each other's errors", async () => {
  const [sharded, full, later] = [join(folder, 'sharded'), join(folder, 'full'), join(folder, 'later')];
  const byRank = await runActions(2, [
    { do: 'train', config: tinyConfig('FULL_SHARD'), steps: 2 },
    { do: 'dump', folder: join(folder, 'dump') },
    { do: 'save', folder: sharded, options: { trainer: { step: 2 } } },
    { do: 'save', folder: full, options: { type: 'FULL_STATE_DICT', maxShardBytes: 8000 } },
    { do: 'saveWhileTraining', folder: later, steps: 2 },
    { do: 'save', folder: sharded, fullDiskOn: 1 },
    { do: 'saveTwice', folder: join(folder, 'twice') },
    { do: 'train', config: tinyConfig('NO_SHARD', { seed: 5 }), steps: 1 },
    { do: 'load', folder: sharded },
    { do: 'dump', folder: join(folder, 'loaded') },
  ]);
  const [first = [], second = []] = byRank;
  for (const i of [0, 1, 2, 3, 4, 7, 8, 9]) for (const results of byRank) resultOf(results[i]);
  const dump = readDump(join(folder, 'dump'), 2);
  assert.deepEqual(readdirSync(sharded), [
    'checksums.json',
    'model-00001-of-00002.safetensors',
    'model-00002-of-00002.safetensors',
    'model.safetensors.index.json',
    'optimizer-00001-of-00002.safetensors',
    'optimizer-00002-of-00002.safetensors',
    'optimizer.safetensors.index.json',
    'trainer_state.json',
  ]);
  assert.deepEqual(differences(readCheckpoint(sharded), dump), []);
  assert.deepEqual(differences(readCheckpoint(full), dump), []);
  assert.deepEqual(differences(readCheckpoint(later), readDump(`${later}-dump`, 2)), []);
  assert.deepEqual(differences(readDump(join(folder, 'loaded'), 2), dump), []);
  assert.deepEqual(resultOf(first[8]), { ...(resultOf(first[8]) as object), trainer: { step: 2 }, steps: 2 });
  for (const results of [first, second]) {
    const { code, error } = errorOf(results[5]);
    assert.equal(code, 'IO');
    assert.match(
      error,
      /\[rank 1\] cannot write .*model-00002-of-00002\.safetensors in tensor .* at byte \d+: the disk is full/,
    );
    assert.match(
      errorOf(results[6]).error,
      /a save is still being written \(.* of .*\); await that save's 'done'/,
    );
  }
  assert.deepEqual(
    readdirSync(folder).filter((name) => /saving|previous/.test(name)),
    [],
  );
});
