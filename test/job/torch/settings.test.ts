import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SETTING_ROWS } from '../../../src/config/setting-table';
import { parseTrainConfig, type TrainConfigInput } from '../../../src/config/train-config';
import { checkForTorch, TORCH_SUPPORT } from '../../../src/job/torch/settings';

test('every setting of the table is done, refused or ignored on PyTorch', () => {
  const paths = SETTING_ROWS.filter(({ path, planned }) => planned !== null && !isPartOfData(path)).map(
    ({ path }) => path,
  );
  assert.deepEqual([...TORCH_SUPPORT.keys()].sort(), paths.sort());
});

/** Parts of a setting with one row for a plan are done together with it. */
function isPartOfData(path: string): boolean {
  return /^data\./.test(path);
}

const check = (config: TrainConfigInput): string[] => checkForTorch(parseTrainConfig(config));

test('a config with defaults, and one with settings that PyTorch does, give no warning', () => {
  assert.deepEqual(check({}), []);
  const parallel = { strategy: 'SHARD_GRAD_OP', pp: 2, schedule: 'gpipe' } as const;
  assert.deepEqual(
    check({ parallel, optimizer: { kind: 'sgd', momentum: 0.9 }, mixedPrecision: 'bf16' }),
    [],
  );
});

test('what PyTorch does not do is refused by name, all at once, with what to do', () => {
  const config = { parallel: { cp: 2 }, lora: { r: 4 }, optimizer: { kind: 'lion' } } as const;
  assert.throws(() => check(config), {
    code: 'CONFIG',
    message:
      /parallel\.cp: context parallelism is not built.*\nlora: .*engine 'wasm'\noptimizer\.kind: PyTorch has adamW, adam, sgd, not 'lion'/,
  });
  assert.throws(
    () => check({ parallel: { strategy: 'ZERO_2' } }),
    /ZERO_2 needs DeepSpeed, which is not built here/,
  );
});

test('what has no effect on PyTorch is a warning that says why', () => {
  assert.deepEqual(check({ parallel: { backwardPrefetch: null } }), [
    "parallel.backwardPrefetch has no effect with engine 'torch': PyTorch gathers the next unit in backward as its framework does by default",
  ]);
});
