import assert from 'node:assert/strict';
import { test } from 'node:test';
import { withSettings } from '../../src/config/set-settings';
import { SETTING_ROWS } from '../../src/config/setting-table';
import { parseTrainConfig, type TrainConfigInput } from '../../src/config/train-config';

const set = (config: TrainConfigInput, ...texts: string[]) => parseTrainConfig(withSettings(config, texts));

test('a setting is changed by its path, and the other settings of its section stay', () => {
  const config = set(
    { parallel: { strategy: 'ZERO_1', bucketBytes: 7 } },
    'parallel.strategy=ZERO_2',
    'batch = 8',
  );
  assert.deepEqual([config.parallel.strategy, config.parallel.bucketBytes, config.batch], ['ZERO_2', 7, 8]);
});

test('values are read as in YAML', () => {
  const { optimizer, clipNorm, parallel } = set(
    {},
    'optimizer.betas=[0.8, 0.9]',
    'clipNorm=null',
    'optimizer.lr=1e-4',
    'parallel.wrap={ minNumParams: 1000 }',
  );
  assert.deepEqual([optimizer.betas, clipNorm, optimizer.lr], [[0.8, 0.9], null, 1e-4]);
  assert.deepEqual(parallel.wrap, { minNumParams: 1000 });
});

test('a short form is expanded before one of its parts is changed', () => {
  assert.deepEqual(
    set({ mixedPrecision: 'bf16' }, 'mixedPrecision.reduceDtype=fp32').mixedPrecision,
    parseTrainConfig({ mixedPrecision: { paramDtype: 'bf16', reduceDtype: 'fp32' } }).mixedPrecision,
  );
  const { model } = set({ model: 'bench' }, 'model.layers=2');
  assert.ok(typeof model === 'object' && model.kind === 'gpt' && model.layers === 2 && model.dim === 256);
  const { data } = set({ data: './my.txt' }, 'data.tokenizer=./tokenizer.json', 'data.shuffle=false');
  assert.ok(typeof data === 'object');
  assert.deepEqual([data.path, data.tokenizer, data.shuffle], ['./my.txt', './tokenizer.json', false]);
  assert.equal(set({}, 'schedule.maxSteps=5').schedule?.maxSteps, 5);
});

test('the error of a misspelled key names the nearest key; the error of a text without a value shows the syntax', () => {
  assert.throws(
    () => set({}, 'parallel.stratgy=ZERO_2'),
    /parallel\.stratgy: unknown key; did you mean "strategy"/,
  );
  assert.throws(() => set({}, 'batch'), /--set batch: give a key and a value/);
  assert.throws(() => set({}, 'batch=[1'), /--set batch=\[1: the value is not YAML/);
});

test('every setting of the table can be set', () => {
  const language = parseTrainConfig({
    mixedPrecision: {},
    gradScaler: {},
    lora: {},
    schedule: { kind: 'wsd', maxSteps: 9, decaySteps: 3 },
    data: { path: 'a.txt' },
  });
  const videos = parseTrainConfig({
    model: 'wan-tiny',
    data: 'moving-shapes',
    textEncoder: { model: 't5-tiny' },
  });
  const pairs = parseTrainConfig({ dpo: {}, data: { preferences: 'a.jsonl' } });
  for (const { path } of SETTING_ROWS) {
    const usual = path.startsWith('textEncoder') ? videos : path.startsWith('dpo') ? pairs : language;
    const value = path
      .split('.')
      .reduce<unknown>(
        (inner, key) => Object.entries(inner ?? {}).find(([name]) => name === key)?.[1],
        usual,
      );
    // Data has settings that exclude each other.
    if (path.startsWith('data.') && value === undefined) continue;
    const config = withSettings(usual as TrainConfigInput, [`${path}=${JSON.stringify(value)}`]);
    assert.deepEqual(parseTrainConfig(config), usual, path);
  }
});
