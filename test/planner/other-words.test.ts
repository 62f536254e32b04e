import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ConfigError } from '../../src/core/errors';
import { hardwareOf } from '../../src/planner/hardware';
import type { Layout } from '../../src/planner/layout';
import { modelOf } from '../../src/planner/models';
import { plannedInput } from '../../src/planner/plan-input';
import { predict } from '../../src/planner/predict';
import { layoutOfLine } from '../support/batch-lines';

/** Names that several boards share, or that lack the maker's word, and the boards that they mean. */
const SHORT = {
  V100: 'V100-32G',
  A100: 'A100-80G',
  H100: 'H100-80G',
  4090: 'RTX4090-24G',
  '910B': 'Ascend-910B-64G',
};

const GPT = { kind: 'gpt', layers: 24, dim: 1024, heads: 16, seq: 1024, vocab: 51_200 };

function layout(request: object): Layout {
  return layoutOfLine({ model: GPT, gpus: 8, ...request });
}

function refused(request: object): string {
  try {
    layout(request);
  } catch (error) {
    assert.ok(error instanceof ConfigError);
    return error.message;
  }
  return assert.fail('was planned');
}

test("a GPU is found by its maker's and drivers' names, and a PCIe board is a different GPU", () => {
  for (const name of ['a100-80g', 'A100-80GB', 'NVIDIA A100-SXM4-80GB', 'a100_80g']) {
    assert.equal(hardwareOf(name).name, 'A100-80G');
  }
  assert.equal(hardwareOf('NVIDIA H100 80GB HBM3').name, 'H100-80G');
  for (const name of ['A100-PCIe-80GB', 'NVIDIA A100 80GB PCIe']) {
    assert.equal(hardwareOf(name).name, 'A100-PCIe-80G');
  }
  assert.equal(hardwareOf('NVIDIA GeForce RTX 4090').name, 'RTX4090-24G');
  assert.equal(hardwareOf('H20').name, 'H20-96G');
  assert.throws(() => hardwareOf('A100-PCIe'), /did you mean 'A100-PCIe-40G'/);
  for (const [name, board] of Object.entries(SHORT)) {
    assert.equal(hardwareOf(name).name, board);
    const { assumed } = plannedInput({ model: 'gpt2' }, name);
    assert.match(assumed[0]?.says ?? '', new RegExp(`^on: '${name}' is planned as ${board}`));
  }
  assert.match(
    plannedInput({ model: 'gpt2' }, 'A100').assumed[0]?.says ?? '',
    /not as A100-40G, A100-PCIe-40G, A100-PCIe-80G$/,
  );
  assert.throws(() => hardwareOf(''), /'' is not known\. Known: V100/);
});

test('a model is found by its name on a hub', () => {
  assert.equal(modelOf('meta-llama/Llama-3.1-8B').name, 'llama3-8b');
  assert.equal(modelOf('meta-llama/Meta-Llama-3-70B').name, 'llama3-70b');
  assert.equal(modelOf('Qwen/Qwen-7B').name, 'qwen-7b');
  assert.equal(modelOf('Qwen/Qwen2-7B').name, 'Qwen2-7B');
  assert.equal(modelOf('Qwen/Qwen2.5-72B-Instruct').name, 'qwen2.5-72b');
  assert.equal(modelOf('mistralai/Mixtral-8x7B-v0.1').name, 'Mixtral-8x7B');
  assert.equal(modelOf('mistralai/Mixtral-8x22B-Instruct-v0.1').name, 'Mixtral-8x22B');
  assert.throws(() => modelOf('Qwen/Qwen9-7B'), /is not known; did you mean 'qwen-7b'/);
});

test('values are accepted in any case, with either dash, and in the words of other programs', () => {
  const { strategy, attention, precision, schedule } = layout({
    parallel: { strategy: 'full-shard', pp: 2 },
    attention: 'Flash-Attention-2',
    precision: 'BF16',
    schedule: 'GPIPE',
  });
  assert.deepEqual([strategy, attention, precision, schedule], ['FULL_SHARD', 'flash', 'bf16', 'GPipe']);
  assert.equal(layout({ parallel: { strategy: 'ZeRO-3' } }).strategy, 'FULL_SHARD');
});

test("degrees and batches can be given by Megatron-LM's and DeepSpeed's keys", () => {
  const { tp, pp, dp, microBatch, globalBatch } = layout({
    parallel: { tensor_model_parallel_size: 2, pipeline_model_parallel_size: 2 },
    batch: { micro_batch_size: 2, global_batch_size: 16 },
    nic: 100,
  });
  assert.deepEqual([tp, pp, dp, microBatch, globalBatch], [2, 2, 2, 2, 16]);
});

test('an interleaved schedule has two stages per GPU by default', () => {
  const parallel = { strategy: 'NO_SHARD', pp: 4 };
  const { virtualStages, schedule } = layout({ parallel, schedule: 'Interleaved1F1B' });
  assert.deepEqual([virtualStages, schedule], [2, 'interleaved']);
  assert.equal(layout({ parallel, schedule: 'interleaved', virtual_stages: 3 }).virtualStages, 3);
  assert.equal(layout({ parallel }).virtualStages, 1);
});

test('the error of a wrong value in a model or GPU names its key', () => {
  assert.match(refused({ model: { params: '7B' } }), /^model\.params: expected a number, got "7B"/);
  assert.match(refused({ model: { ...GPT, kind: 'gpt2' } }), /^model\.kind: .*got "gpt2"/);
  assert.match(refused({ hardware: { memoryGB: 64 } }), /^hardware\.like: is missing/);
});

test('the error of degrees that do not fit the GPUs shows their product', () => {
  assert.match(refused({ parallel: { tp: 3 } }), /gpus \(8\) must be a multiple of tp\(3\) x .* = 3/);
  assert.match(refused({ gpus: 16, parallel: { dp: 2, tp: 2, pp: 2 } }), /= 8, but gpus is 16/);
});

test('heads that do not divide dim are refused, and heads that are left out are chosen to divide it', () => {
  assert.match(refused({ model: { ...GPT, dim: 1000 } }), /dim 1000 is not divisible by heads 16/);
  const { heads, headDim } = layout({ model: { ...GPT, dim: 1088, heads: undefined } }).model;
  assert.equal(heads * headDim, 1088);
});

test('fp8 is refused before Hopper, and a note says that Volta has no bf16', () => {
  assert.match(refused({ precision: 'fp8' }), /A100-80G cannot compute in fp8/);
  assert.equal(layout({ precision: 'fp8', hardware: 'H100-80G' }).precision, 'fp8');
  const { outside } = predict(layout({ hardware: 'V100-32G' }));
  assert.ok(outside.some((text) => text.includes('no bf16')));
});

test('parameters given in billions, or fewer than in the tables, are refused', () => {
  assert.match(refused({ model: { params: 7.5 } }), /leaves no parameters for the layers: .*as 7\.5e9/);
  assert.match(refused({ model: { ...GPT, params: 1e6 } }), /leaves no parameters for the layers/);
  assert.equal(layout({ model: { params: 1e7 } }).model.params, 1e7);
});
