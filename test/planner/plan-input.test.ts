import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { PUBLISHED_NAMES } from '../../src/config/model-names';
import { PRESETS } from '../../src/config/named-config';
import { knownKeys } from '../../src/config/train-config';
import { shapeOf } from '../../src/planner/model-shape';
import { shapeOfHub } from '../../src/planner/models';
import { placeSchema } from '../../src/planner/place';
import { type PlanInput, plannedInput } from '../../src/planner/plan-input';
import { predict } from '../../src/planner/predict';
import type { PlanPlace } from '../../src/planner/read-settings';
import { layoutOfLine } from '../support/batch-lines';

const layoutOfInput = (input: unknown, place?: PlanPlace) => plannedInput(input as PlanInput, place).layout;

test('keys of a place mean the same in the config and beside it', () => {
  const config = { model: 'llama3-8b', parallel: { tp: 2 }, accumulation: 4 };
  const place = { hardware: 'H100-80G', gpus: 16, batch: 2 };
  assert.deepEqual(layoutOfInput(config, place), layoutOfInput({ ...config, ...place }));
  assert.equal(layoutOfInput(config, 'V100-32G').hardware.name, 'V100-32G');
  assert.equal(layoutOfInput(config, { like: 'A100-80G', memoryGB: 64 }).hardware.memoryGB, 64);
  for (const key of Object.keys(placeSchema.shape)) assert.ok(!knownKeys('').includes(key), key);
});

test('a key without a value in the place leaves the config unchanged', () => {
  const config = { model: 'llama3-8b', gpus: 16, parallel: { tp: 2 }, accumulation: 8 };
  const place = { on: undefined, gpus: undefined, parallel: { tp: undefined }, batch: 2 };
  assert.deepEqual(layoutOfInput(config, place as never), layoutOfInput({ ...config, batch: 2 }));
});

test('a model given only by its parameters can be planned', () => {
  const layout = layoutOfInput({ model: { params: 7.5e9 }, gpus: 64, parallel: { strategy: 'ZERO_1' } });
  assert.equal(layout.model.params, 7.5e9);
  assert.equal(layout.shards, 64);
});

test('any number of parameters has a usual shape, at once', () => {
  const shapes = [1e6, 7.5e9, 175e9, 1e99].map((params) => shapeOf({ params }));
  assert.deepEqual(
    shapes.slice(0, 3).map(({ layers, dim }) => [layers, dim]),
    [
      [1, 128],
      [34, 4224],
      [96, 12_288],
    ],
  );
  assert.ok((shapes[3]?.dim ?? 0) > 1e30);
});

test('the error of a short key does not name a key without a common letter', () => {
  assert.throws(() => layoutOfInput({ model: 'gpt2', tp: 2 }), /tp: unknown key; write parallel\.tp/);
  assert.throws(
    () => plannedInput('gpt2', {}, { calibraton: {} } as never),
    /no argument calibraton; did you mean/,
  );
});

test("a model's name, a preset and a file can be planned, and `on` names the hardware", () => {
  const place = { on: 'H100-80G', gpus: 16 };
  assert.deepEqual(
    layoutOfInput('llama3-8b', place),
    layoutOfInput({ model: 'llama3-8b', hardware: 'H100-80G', gpus: 16 }),
  );
  assert.deepEqual(layoutOfInput('meta-llama/Llama-3.1-8B', place), layoutOfInput('llama3-8b', place));
  assert.deepEqual(layoutOfInput('tiny', place), layoutOfInput(PRESETS.tiny, place));
  const folder = mkdtempSync(join(tmpdir(), 'shardlab-plan-'));
  try {
    const [config, request] = [join(folder, 'run.yaml'), join(folder, 'request.json')];
    writeFileSync(config, 'model: gpt2\nbatch: 2\n');
    writeFileSync(request, '{ "model": "gpt2", "batch": { "micro": 2 } }');
    assert.deepEqual(layoutOfInput(config, place), layoutOfInput({ model: 'gpt2', batch: 2 }, place));
    const line = { model: 'gpt2', batch: { micro: 2 }, hardware: 'H100-80G', gpus: 16 };
    assert.deepEqual(layoutOfInput(request, place), layoutOfLine(line));
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test('a plan knows every model of a config, with the same sizes', () => {
  for (const name of PUBLISHED_NAMES) {
    const ofRequest = layoutOfInput({ model: name }).model;
    assert.deepEqual(ofRequest, layoutOfInput({ model: name, batch: 1 }).model, name);
  }
});

test("a TrainConfig's settings become the layout's settings", () => {
  const config = {
    model: 'tiny',
    batch: 4,
    accumulation: 2,
    mixedPrecision: 'bf16',
    activationCheckpointing: 'full',
    offload: { optimizer: true },
    parallel: { strategy: 'HYBRID_SHARD', mesh: { dpReplicate: 2, dpShard: 4 } },
  };
  const layout = layoutOfInput(config, { hardware: 'A100-80G', gpus: 8 });
  assert.equal(layout.model.params, 1_063_680);
  assert.deepEqual(
    [layout.dp, layout.shards, layout.microBatch, layout.numMicroBatches, layout.globalBatch],
    [8, 4, 4, 2, 64],
  );
  assert.deepEqual(
    [layout.precision, layout.recompute, layout.stack, layout.offload.optimizer],
    ['bf16', 'full', 'fsdp2', true],
  );
  assert.equal(layoutOfInput({ model: 'tiny' }).precision, 'fp32');
  assert.equal(layoutOfInput({ model: 'tiny', parallel: { strategy: 'ZERO_2' } }).stack, 'deepspeed');
});

test('a model of the catalogue is planned without assumptions about its sizes', () => {
  for (const model of ['Qwen/Qwen3-30B-A3B', 'deepseek-ai/DeepSeek-V3']) {
    const { assumed } = plannedInput({ model, hardware: 'H100-80G', gpus: 64 });
    assert.deepEqual(
      assumed.filter(({ setting }) => setting.startsWith('model.')),
      [],
    );
  }
});

test('settings of experts without effect are named, and those that a framework lacks are outside', () => {
  const place = { hardware: 'H100-80G', gpus: 8, cudaGraph: 'router' } as const;
  const dense = plannedInput({ model: 'llama3-8b', ...place, dispatcher: 'deepep' });
  assert.deepEqual(
    dense.assumed.map(({ setting }) => setting).filter((setting) => /Graph|dispatcher/.test(setting)),
    ['dispatcher', 'cudaGraph'],
  );
  assert.match(predict(dense.layout).outside.join(), /fsdp2 itself lacks CUDA graphs \(cudaGraph 'router'\)/);
  const experts = plannedInput({
    model: 'Qwen/Qwen3-30B-A3B',
    ...place,
    stack: 'megatron',
    parallel: { strategy: 'ZERO_1' },
  });
  assert.ok(experts.assumed.every(({ setting }) => setting !== 'cudaGraph'));
  assert.doesNotMatch(predict(experts.layout).outside.join(), /CUDA graphs/);
});

test('settings without a counterpart in the planner are named or refused', () => {
  const { assumed } = plannedInput(
    { activationCheckpointing: { saveOps: ['matMul'] }, offload: { activations: true } },
    { attention: 'flash' },
  );
  assert.deepEqual(
    assumed.map(({ setting }) => setting),
    ['offload.activations', 'activationCheckpointing'],
  );
  assert.match(assumed[1]?.says ?? '', /saveOps.* is planned as 'selective'/);
  const moe = { kind: 'moe', layers: 2, dim: 64, heads: 4, vocab: 256, seq: 32, experts: 4 };
  assert.throws(() => layoutOfInput({ model: moe, batch: 1 }), /'moe' cannot be planned/);
  assert.throws(() => layoutOfInput(8), /a plan needs a TrainConfig or a model's name/);
});

test("published models' shapes can be planned as they are written", () => {
  const wan = {
    kind: 'dit',
    experts: 2,
    expert_choice: 'by timestep',
    boundary: { t2v: 0.875, i2v: 0.9 },
    layers: 40,
    dim: 5120,
    ffn: 13_824,
    heads: 40,
    freq_dim: 256,
    text_dim: 4096,
    text_len: 512,
    patch: [1, 2, 2],
    in_channels: { t2v: 16, i2v: 36 },
    out_channels: 16,
    qk_norm: true,
    cross_attn_norm: true,
    vae_stride: [4, 8, 8],
    frames: 81,
    params_per_expert: 14_288_491_584,
    active_experts: 1,
  };
  assert.equal(layoutOfLine({ model: wan }).model.params, 2 * 14_288_491_584);
  const llama = {
    kind: 'llama',
    layers: 32,
    dim: 4096,
    heads: 32,
    kv_heads: 8,
    ffn: 14_336,
    gated_ffn: true,
    vocab: 128_256,
    tied: false,
    params: 8_030_261_248,
  };
  assert.deepEqual(
    { ...layoutOfLine({ model: llama, seq: 8192 }).model, name: '' },
    { ...layoutOfLine({ model: 'llama3-8b' }).model, name: '' },
  );
});

test('the error of a wrong request or wrong hardware shows how they are written', () => {
  const input = (value: unknown, place?: unknown) => () => layoutOfInput(value, place as PlanPlace);
  assert.throws(input('llama3-9b'), /neither a preset, a model nor a file .*did you mean llama3-8b/);
  assert.throws(
    input({ model: 'gpt2' }, { on: 'H100-80G', hardware: 'A100-80G' }),
    /mean the same; give one/,
  );
  assert.throws(input({ model: 'gpt2' }, null), /give the hardware's name/);
  assert.throws(input({ model: 'gpt2' }, 8), /give the hardware's name/);
});

test('a name that every object inherits is an unknown key, value or family, and nothing else', () => {
  for (const name of ['constructor', '__proto__', 'toString']) {
    const request = JSON.parse(`{"model":"llama3-8b","gpus":8,"${name}":1}`);
    assert.throws(() => plannedInput(request), {
      code: 'CONFIG',
      message: new RegExp(`^${name}: unknown key`),
    });
    const place = JSON.parse(`{"gpus":2,"parallel":{"${name}":2}}`);
    const message = new RegExp(`^parallel\\.${name}: unknown key`);
    assert.throws(() => layoutOfInput('tiny', place), { code: 'CONFIG', message });
    const stack = { model: 'llama3-8b', gpus: 8, stack: name };
    const got = new RegExp(`^stack: expected one of .*, got "${name}"`);
    assert.throws(() => layoutOfInput(stack), { code: 'CONFIG', message: got });
    const family = { code: 'CONFIG', message: new RegExp(`model_type '${name}' is not known`) };
    assert.throws(() => shapeOfHub({ model_type: name }, 'x'), family);
  }
});

test('keys of older lines, and keys of a place within parallel, are refused once, with what to write today', () => {
  for (const [input, message] of [
    [{ precision: 'bf16' }, /^precision: unknown key; write mixedPrecision, as 'bf16'[^\n]*$/],
    [{ recompute: 'full' }, /^recompute: unknown key; write activationCheckpointing, as 'full'$/],
    [{ seq: 2048 }, /^seq: unknown key; write model: \{ like: 'llama3-8b', seq \}$/],
    [{ parallel: { stack: 'megatron' } }, /^parallel\.stack: unknown key; write stack beside the model/],
    [{ batch: { micro: 1 } }, /^batch: expected a number, got .*; write the rows of a rank and pass/],
    [{ model: { params: '7B' } }, /^model\.params: expected a number, got "7B"$/],
    [{ model: { like: 'llama3-8b', sqe: 3 } }, /^model\.sqe: unknown key; [^\n]*$/],
  ] as const)
    assert.throws(() => layoutOfInput({ model: 'llama3-8b', ...input }), { code: 'CONFIG', message });
});
