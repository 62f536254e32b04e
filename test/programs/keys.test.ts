import assert from 'node:assert/strict';
import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { SETTING_ROWS, settingAt } from '../../src/config/setting-table';
import { MODEL_PARTS } from '../../src/config/settings/model';
import { parseTrainConfig } from '../../src/config/train-config';
import { readConfig } from '../../src/programs/read';
import { dialects, rowOf } from '../../src/programs/registry/registry';
import type { KeyRow, KeyTable, Translation } from '../../src/programs/rows/key-row';
import type { Dialect } from '../../src/programs/rows/meant';
import { repositoryRoot, testData } from '../support/paths';
import { programPages, programsIndex, type SourceKeys } from './program-pages';

/** The keys of the installed packages, as test/data/dialects/list_keys.py lists them. */
const INSTALLED: { readonly keys: Readonly<Record<string, readonly string[]>> } = JSON.parse(
  readFileSync(testData('dialects', 'keys.json'), 'utf8'),
);

/** The keys of packages that need not be installed, with their defaults, as test/data/dialects/list_source_keys.py lists them. */
const SOURCES: SourceKeys = JSON.parse(readFileSync(testData('dialects', 'source_keys.json'), 'utf8'));

function dialectNamed(name: string): Dialect {
  const dialect = dialects().find((one) => one.name === name);
  assert.ok(dialect, name);
  return dialect;
}

test('every key of the installed accelerate, deepspeed, torch and transformers has a row', () => {
  let count = 0;
  for (const [name, keys] of Object.entries(INSTALLED.keys)) {
    const dialect = dialectNamed(name);
    const missing = keys.filter((key) => rowOf(dialect.keys, key) === null);
    assert.deepEqual(missing, [], name);
    count += keys.length;
  }
  assert.ok(count > 600, `${count} keys`);
});

test('arguments of calls are in the order of their signatures, by which positions name them', () => {
  const { keys } = dialectNamed('PyTorch in a script');
  const listed = INSTALLED.keys['PyTorch in a script'] ?? [];
  const names = new Set(listed.map((key) => key.replace(/\..*/, '')));
  assert.ok(names.size >= 10);
  for (const name of names) {
    const own = Object.keys(keys[name]?.parts ?? {}).map((key) => `${name}.${key}`);
    const signature = listed.filter((key) => key.startsWith(`${name}.`));
    assert.deepEqual(own.slice(0, signature.length), signature, name);
  }
});

test('every key of ms-swift, LLaMA-Factory, TRL, TorchTitan, DiffSynth-Studio and Megatron-LM has a row', () => {
  for (const [name, keys] of Object.entries(SOURCES.keys)) {
    const dialect = dialectNamed(name);
    const missing = Object.keys(keys).filter((key) => rowOf(dialect.keys, key) === null);
    assert.deepEqual(missing, [], name);
  }
  const counts = Object.values(SOURCES.keys).map((keys) => Object.keys(keys).length);
  assert.ok(Math.min(...counts) > 40 && counts.reduce((sum, count) => sum + count) > 1800, String(counts));
});

/** Defaults that mean nothing: without other arguments, the program has no use for them. */
const UNUSED_DEFAULTS: Readonly<Record<string, string>> = {
  'megatron sft lr_wsd_decay_style': 'is for WSD alone, of which lr_decay_style warns',
  'Megatron-LM lr_wsd_decay_style': 'is for WSD alone, of which lr_decay_style warns',
  'megatron sft sgd_momentum': 'is for SGD alone',
  'Megatron-LM sgd_momentum': 'is for SGD alone',
  'Megatron-LM loss_scale_window': 'is for fp16 alone',
  'Megatron-LM hidden_size': 'is no size',
  'Megatron-LM num_attention_heads': 'is no size',
  'Megatron-LM num_layers': 'is no size',
  'TorchTitan model.flavor': 'is the model of tests',
  'TorchTitan training.dataset': 'is the data of tests',
};

test('a key that has its default value means what the dialect means without the key', () => {
  const ours = parseTrainConfig({});
  for (const [name, keys] of Object.entries(SOURCES.keys)) {
    const dialect = dialectNamed(name);
    const usual = dialect.usual?.(() => undefined)?.usual ?? {};
    for (const [key, value] of Object.entries(keys)) {
      if (value === null || `${name} ${key}` in UNUSED_DEFAULTS) continue;
      const { sets = {}, effect } = meaningOf(dialect, key, value);
      assert.ok(
        effect !== 'refused' && effect !== 'error',
        `${name} ${key}: ${JSON.stringify(value)} is ${effect}`,
      );
      for (const [path, set] of Object.entries(sets)) {
        // A schedule has these values unless it says otherwise; so have adapters.
        const within = { 'schedule.warmupSteps': 0, 'schedule.etaMin': 0, 'lora.dropout': 0 };
        const expected =
          usual[path] ?? settingAt(ours, path) ?? Object.entries(within).find(([one]) => one === path)?.[1];
        assert.deepEqual(set, expected, `${name} ${key}: ${JSON.stringify(value)} sets ${path}`);
      }
    }
  }
});

/** Returns what a key means that is the only one. */
function meaningOf({ keys }: Dialect, key: string, value: unknown): Translation {
  const own = key.split('.').at(-1) ?? '';
  const other = (name: string): unknown => (name === own ? value : undefined);
  return rowOf(keys, key)?.mean({ key: own, value, line: 1, other }) ?? {};
}

test('defaults that depend on other keys are those of the programs', () => {
  const megatron = readConfig('megatron sft --model Qwen/Qwen-7B --adam_beta1 0.8');
  assert.deepEqual(megatron.config.optimizer?.betas, [0.8, 0.95]);
  const sgd = readConfig('python pretrain_gpt.py --optimizer sgd --micro-batch-size 2');
  assert.equal(sgd.config.optimizer?.momentum, 0.9);
  assert.equal(megatron.config.lora, undefined, 'all parameters train by default');
  const half = readConfig('python pretrain_gpt.py --fp16 --micro-batch-size 2');
  assert.deepEqual(half.config.gradScaler, { initScale: 2 ** 32, growthInterval: 1000 });
  const kept = readConfig('python pretrain_gpt.py --use-torch-fsdp2 --torch-fsdp2-no-reshard-after-forward');
  assert.equal(kept.config.parallel?.strategy, 'SHARD_GRAD_OP');
  const passes = (command: string) => readConfig(command, { world: 8 }).config.accumulation;
  assert.equal(passes('swift sft --model Qwen/Qwen-7B --per_device_train_batch_size 1'), 2);
  assert.equal(passes('swift sft --model Qwen/Qwen-7B --gradient_accumulation_steps 3'), 3);
  assert.equal(passes('megatron sft --model Qwen/Qwen-7B --tensor_model_parallel_size 4'), 8);
});

test('every row of a setting names settings that exist', () => {
  const paths = new Set([
    ...SETTING_ROWS.map(({ path }) => path),
    ...Object.keys(MODEL_PARTS).map((key) => `model.${key}`),
  ]);
  const rowsOf = (keys: KeyTable): readonly KeyRow[] =>
    Object.values(keys).flatMap((row) => [row, ...(row.parts === undefined ? [] : rowsOf(row.parts))]);
  for (const { name, keys } of dialects()) {
    for (const { effect, says } of rowsOf(keys)) {
      if (effect === null) assert.ok(paths.has(says), `${name}: ${says}`);
      assert.notEqual(says, '', name);
    }
  }
});

test('the pages of docs/reference/programs equal the pages generated from the tables of keys', () => {
  const folder = join(repositoryRoot(), 'docs', 'reference', 'programs');
  const index = readFileSync(join(folder, 'index.md'), 'utf8');
  const pages = new Map([...programPages(), ['index.md', programsIndex(index, INSTALLED, SOURCES)]]);
  if (process.env.SHARDLAB_GOLDEN === '1') {
    for (const name of readdirSync(folder)) if (!pages.has(name)) rmSync(join(folder, name));
    for (const [name, page] of pages) writeFileSync(join(folder, name), page);
  }
  assert.deepEqual(readdirSync(folder).sort(), [...pages.keys()].sort());
  for (const [name, page] of pages) {
    const differs = `docs/reference/programs/${name} differs; \`npm run golden\` writes it anew`;
    assert.equal(readFileSync(join(folder, name), 'utf8'), page, differs);
  }
});
