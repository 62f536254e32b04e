import assert from 'node:assert/strict';
import { existsSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { modelShape } from '../../src/config/settings/model';
import { parseTrainConfig } from '../../src/config/train-config';
import { buildModel } from '../../src/nn/models/build-model';
import { LRSchedule, rateOf } from '../../src/sharding/optim/lr-schedule';
import { TorchBatches } from '../../src/torch/batches';
import { writeInitialValues } from '../../src/training/checkpoint/pretrained/initial-values';
import { openFirstState } from '../../src/training/checkpoint/pretrained/open-pretrained';
import { createBatches } from '../../src/training/data/batches';
import { videosOf } from '../../src/training/data/video-batches';

const MODEL = { kind: 'gpt', layers: 1, dim: 16, heads: 2, vocab: 256, seq: 8 } as const;

test('ranks get the batches of a run of this library, and the rate of each step', () => {
  const schedule = { kind: 'linear', warmupSteps: 4, maxSteps: 10 } as const;
  const config = parseTrainConfig({
    model: MODEL,
    batch: 2,
    accumulation: 2,
    schedule,
    optimizer: { lr: 0.1 },
  });
  const batches = new TorchBatches(config, 2, undefined);
  const source = createBatches(config, { world: 2 });
  const made = batches.make({ run: 1, what: 'train', rank: 1, first: 2, count: 4 });
  const [ids, ...others] = made.tensors;
  assert.deepEqual([ids?.shape, others], [[4, 2, 9], []]);
  const size = 2 * 9;
  for (let i = 0; i < 4; i++) {
    const tokens = ids?.values.subarray(i * size, (i + 1) * size);
    assert.deepEqual(tokens, source.batch(1, 2 + i).tokens);
  }
  // Microbatches 2 to 5 are those of the second and the third step, within warmup.
  assert.deepEqual(
    made.lrs.map(([lr = 0]) => lr.toFixed(4)),
    ['0.0500', '0.0750'],
  );
});

test('a rate that was set by hand holds for its step, and a checkpoint of a later step has the rate of the schedule, as here', () => {
  const schedule = { kind: 'cosine', maxSteps: 10 } as const;
  const config = parseTrainConfig({ model: MODEL, schedule, optimizer: { lr: 0.1 }, steps: 10 });
  const batches = new TorchBatches(config, 1, undefined);
  const group = { lr: 0.1 };
  assert.ok(config.schedule !== null);
  const here = new LRSchedule({ lr: 0.1, paramGroups: [group] }, rateOf(config.schedule, 10));
  const step = (count: number): void => {
    for (let i = 0; i < count; i++) here.step();
  };
  step(2);
  group.lr = 0.02;
  batches.setRate(0.02, 2);
  assert.deepEqual(batches.stateAfter(2).schedule, here.state());
  step(3);
  assert.deepEqual(batches.stateAfter(5).schedule, here.state());
  // The same rate again, at a step for which the schedule has another one.
  group.lr = 0.02;
  batches.setRate(0.02, 5);
  step(1);
  const [later = [0]] = batches.make({ run: 1, what: 'train', rank: 0, first: 6, count: 1 }).lrs;
  assert.deepEqual(later, [here.lr]);
  assert.deepEqual(batches.stateAfter(6).schedule, here.state());
});

test('ranks get the noised videos of a run of this library', () => {
  const config = parseTrainConfig({ model: 'wan-tiny', data: 'moving-shapes', batch: 2 });
  const shape = modelShape(config);
  assert.ok(shape.kind === 'dit');
  const source = videosOf({ config, shape, world: 2 });
  const batches = new TorchBatches(config, 2, undefined);
  const { tensors } = batches.make({ run: 1, what: 'train', rank: 1, first: 3, count: 2 });
  const video = [shape.outChannels, ...shape.latent];
  assert.deepEqual(
    tensors.map((tensor) => tensor.shape),
    [
      [2, 2, ...video],
      [2, 2, ...video],
      [2, 2],
      [2, 2, shape.textLen, shape.textDim],
    ],
  );
  const { timesteps, fillVelocity } = source.batch(1, 4);
  const [velocity, , times] = tensors;
  const expected = new Float32Array((velocity?.values.length ?? 0) / 2);
  fillVelocity(expected);
  assert.deepEqual(velocity?.values.subarray(expected.length), expected);
  assert.deepEqual(times?.values.subarray(2), timesteps);
  // The validation videos of both ranks, the last of which has fewer rows.
  const odd = { ...config, batch: 3, movingShapes: { ...config.movingShapes, validation: 4 } };
  const made = new TorchBatches(odd, 2, undefined).make({
    run: 1,
    what: 'validation',
    rank: 1,
    first: 15,
    count: 4,
  });
  assert.deepEqual([made.counts, made.last, made.tensors[0]?.shape[1]], [[1], true, 1]);
});

test('a rate that was set by hand holds without a schedule, and scales the later rates with one', () => {
  const constant = new TorchBatches(parseTrainConfig({ model: MODEL }), 1, undefined);
  constant.setRate(0.5, 3);
  const rates = (batches: TorchBatches, first: number): number[] =>
    batches.make({ run: 1, what: 'train', rank: 0, first, count: 2 }).lrs.flat();
  assert.deepEqual(rates(constant, 4), [0.5, 0.5]);
  const config = parseTrainConfig({
    model: MODEL,
    schedule: { kind: 'linear', maxSteps: 11 },
    optimizer: { lr: 1 },
  });
  const falling = new TorchBatches(config, 1, undefined);
  const before = rates(falling, 5);
  falling.setRate((before[0] ?? 0) / 2, 5);
  assert.deepEqual(
    rates(falling, 5).map((rate) => rate.toFixed(6)),
    before.map((rate) => (rate / 2).toFixed(6)),
  );
});

test('validation rows that a config does not have are refused with what to write', () => {
  const batches = new TorchBatches(parseTrainConfig({ model: MODEL }), 1, undefined);
  assert.throws(() => batches.make({ run: 1, what: 'validation', rank: 0, first: 0, count: 1 }), {
    code: 'CONFIG',
    message: /validation: 0\.1/,
  });
});

function folderFor(context: TestContext): string {
  const folder = mkdtempSync(join(tmpdir(), 'shardlab-initial-'));
  context.after(() => rmSync(folder, { recursive: true }));
  return folder;
}

test('initial values that a full disk does not take are one error with the file and what to do', {
  skip: !existsSync('/dev/full') && 'there is no /dev/full here',
}, (context) => {
  const folder = folderFor(context);
  symlinkSync('/dev/full', join(folder, 'model.safetensors'));
  assert.throws(
    () =>
      writeInitialValues(parseTrainConfig({ model: MODEL }), undefined, folder, {
        insteadOfSpace: 'use a larger disk',
      }),
    {
      code: 'IO',
      message:
        /^cannot write .*model\.safetensors: the disk is full: free some space, or use a larger disk \(ENOSPC[^)]*\)$/,
    },
  );
});

test('initial values are those of the seed, or of the files that are given', (context) => {
  const folder = folderFor(context);
  const config = parseTrainConfig({ model: MODEL, seed: 3 });
  writeInitialValues(config, undefined, join(folder, 'a'));
  const expected = buildModel(config).namedState();
  const again = join(folder, 'b');
  writeInitialValues(parseTrainConfig({ model: MODEL, seed: 4 }), join(folder, 'a'), again);
  for (const source of [join(folder, 'a'), again]) {
    const { state, close } = openFirstState(source, modelShape(config), [...expected.keys()]);
    assert.deepEqual([...state.keys()].sort(), [...expected.keys()].sort());
    for (const [name, parameter] of expected) {
      const [values, entry] = [new Float32Array(parameter.size), state.get(name)];
      assert.ok(entry !== undefined && 'source' in entry);
      entry.source.fill(0, values);
      const own = new Float32Array(parameter.size);
      parameter.source?.fill(0, own);
      assert.deepEqual(values, own, name);
    }
    close();
  }
});
