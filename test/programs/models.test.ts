import assert from 'node:assert/strict';
import { test } from 'node:test';
import { modelNamed } from '../../src/config/model-names';
import { plannedInput } from '../../src/planner/plan-input';
import { readConfig } from '../../src/programs/read';
import { effects, readText, whyOf } from './read-files';

// Names of models on hubs, and their sizes.

test('models of a hub have their sizes here, whatever is beside the name', () => {
  const names = {
    'Qwen/Qwen2.5-7B-Instruct': 'qwen2.5-7b',
    'Qwen/Qwen2.5-72B': 'qwen2.5-72b',
    'unsloth/Qwen2.5-0.5B-bnb-4bit': 'qwen2.5-0.5b',
    '/data/models/Qwen2.5-1.5B-Instruct/': 'qwen2.5-1.5b',
    'mistralai/Mistral-7B-v0.1': 'mistral-7b-v0.1',
    'mistralai/Mistral-7B-Instruct-v0.3': 'mistral-7b-v0.3',
    'meta-llama/Llama-2-7b-chat-hf': 'llama2-7b',
    'meta-llama/Llama-2-70b-hf': 'llama2-70b',
    'NousResearch/Llama-3.2-1B': 'llama3.2-1b',
    'meta-llama/Llama-3.1-8B-Instruct': 'llama3-8b',
    'Qwen/Qwen-7B-Chat': 'qwen-7b',
  };
  for (const [name, ours] of Object.entries(names)) assert.equal(modelNamed(name), ours, name);
  for (const name of [
    'Qwen/Qwen2.5-VL-7B',
    'Qwen/Qwen3-8B',
    'mistralai/Mixtral-8x7B-v0.1',
    'x/qwen2.5-7b-moe-a2',
  ])
    assert.notEqual(modelNamed(name), name.toLowerCase());
  assert.equal(modelNamed('Qwen/Qwen2.5-VL-7B'), null);
  assert.equal(modelNamed('mistralai/Mixtral-8x7B-v0.1'), null);
});

/** Numbers of parameters that model cards state, in billions. */
const STATED = {
  'qwen2.5-0.5b': 0.49,
  'qwen2.5-1.5b': 1.54,
  'qwen2.5-3b': 3.09,
  'qwen2.5-7b': 7.61,
  'qwen2.5-14b': 14.7,
  'qwen2.5-32b': 32.5,
  'qwen2.5-72b': 72.7,
  'mistral-7b-v0.1': 7.24,
  'llama2-7b': 6.74,
  'llama2-13b': 13.0,
  'llama2-70b': 69.0,
  'llama3.2-1b': 1.24,
  'llama3.2-3b': 3.21,
} as const;

test('sizes give the number of parameters that model cards state', () => {
  for (const [model, billions] of Object.entries(STATED)) {
    const { params } = plannedInput(model, 'H100-80G').layout.model;
    assert.ok(Math.abs(params / 1e9 / billions - 1) < 0.01, `${model}: ${params}`);
  }
});

test('a model that is not built here is planned with its sizes, and with the length of sequences', () => {
  const yaml = (model: string) =>
    readText(
      'sft.yaml',
      `model_name_or_path: ${model}\nstage: sft\nfinetuning_type: full\ncutoff_len: 2_048\nper_device_train_batch_size: 1\n`,
      8,
    );
  const reading = yaml('Qwen/Qwen3-4B-Base');
  assert.equal(effects(reading).model_name_or_path, 'planned');
  assert.match(whyOf(reading, 'model_name_or_path'), /only a plan has the sizes of Qwen3-4B/);
  assert.equal(effects(reading).cutoff_len, 'planned');
  const { model } = plannedInput(reading, 'H100-80G').layout;
  assert.deepEqual([model.name, model.seq, model.headDim], ['Qwen3-4B', 2048, 128]);
  assert.ok(Math.abs(model.params / 4.02e9 - 1) < 0.01, String(model.params));
  assert.equal(plannedInput(yaml('Qwen/Qwen2.5-7B'), 'H100-80G').layout.model.seq, 2048);
  const experts = plannedInput(yaml('Qwen/Qwen3-30B-A3B'), 'H100-80G').layout.model;
  assert.deepEqual([experts.name, experts.seq, experts.moe?.experts], ['Qwen3-30B-A3B', 2048, 128]);
  assert.equal(effects(yaml('Somebody/Own-30B')).model_name_or_path, 'refused');
});

test('the last line that names a model decides, also beside one that only plans know', () => {
  const named = readConfig('swift sft --model Qwen/Qwen3-8B --model gpt2');
  assert.equal(named.config.model, 'gpt2');
  assert.equal(named.place.model, undefined);
  const planned = readConfig('swift sft --model gpt2 --model Qwen/Qwen3-8B');
  assert.equal(planned.config.model, undefined);
  assert.equal(planned.place.model, 'Qwen3-8B');
});
