import assert from 'node:assert/strict';
import { test } from 'node:test';
import { candidates } from '../../../src/planner/candidates';
import { configOfLayout } from '../../../src/planner/config-of-layout';
import { fitsOnGpu } from '../../../src/planner/memory/allocator';
import { inferenceMemory } from '../../../src/planner/memory/inference';
import { predictMemory } from '../../../src/planner/memory/predict-memory';
import { shapeOf } from '../../../src/planner/model-shape';
import { layoutOf, plannedInput } from '../../../src/planner/plan-input';
import { layoutOfLine } from '../../support/batch-lines';

/** Published files of models that bitsandbytes quantized to NF4 with double quantization. */
const FILES = [
  // huggingface.co/danielhanchen/merged_4bit2_21022024, commit 66543db: size of model.safetensors.
  ['Mistral-7B-v0.1', 4_125_687_620],
  // unsloth/llama-3-8b-Instruct-bnb-4bit, as huggingface_hub's progress bar prints it: 5.70G.
  ['llama3-8b', 5.7e9],
] as const;

test('weights in NF4 have the sizes of published files, to their rounding', () => {
  for (const [model, bytes] of FILES) {
    const { weightBytes } = inferenceMemory(layoutOfLine({ model, gpus: 1 }), { weights: 'nf4' });
    assert.ok(Math.abs(weightBytes / bytes - 1) < 1e-3, `${model}: ${weightBytes} of ${bytes}`);
  }
});

/** Layers, dim, heads, ffn; adapters' bytes in MB and the total in GB of QLoRA's figure of memory by model size. */
const LLAMA = [
  ['7B', [32, 4096, 32, 11_008], 288, 6.9],
  ['13B', [40, 5120, 40, 13_824], 450, 11.3],
  ['33B', [60, 6656, 52, 17_920], 877.5, 24.7],
  ['65B', [80, 8192, 64, 22_016], 1440, 45.0],
] as const;

/** One sequence of 512 tokens, full recompute, bf16 adapters of all layers, as in QLoRA's figure. */
function qlora(size: (typeof LLAMA)[number], changes: object = {}) {
  const [, [layers, dim, heads, ffn], adapterMb] = size;
  const model = { kind: 'llama', layers, dim, heads, ffn, vocab: 32_000, seq: 512 } as const;
  const trainedShare = (adapterMb * 1e6) / 2 / shapeOf(model).params;
  return layoutOfLine({
    ...{ model, hardware: 'L40S-48G', gpus: 1, recompute: 'full', trainedShare, baseWeights: 'nf4' },
    ...changes,
  });
}

test("QLoRA's memory is within 8% of its paper's figure for 7 to 65 billion parameters, and 65 billion fit 48 GB", (t) => {
  for (const size of LLAMA) {
    const layout = qlora(size);
    const { peakBytes, optimizer } = predictMemory(layout);
    t.diagnostic(`${size[0]}: ${(peakBytes / 1e9).toFixed(1)} GB of ${size[3]} GB`);
    assert.ok(Math.abs(peakBytes / 1e9 / size[3] - 1) < 0.08, size[0]);
    // Two float32 moments of bf16 adapters.
    assert.ok(Math.abs(optimizer / (size[2] * 4e6) - 1) < 1e-6, size[0]);
    assert.ok(fitsOnGpu(layout, peakBytes), size[0]);
  }
});

test('under DDP every GPU has all frozen weights, and adapters of a config train over them', () => {
  const [size] = LLAMA;
  const params = (gpus: number): number => predictMemory(qlora(size, { gpus })).params;
  assert.equal(params(8), params(1));
  const config = { model: 'tiny', lora: { r: 8 }, mixedPrecision: 'bf16' } as const;
  const parallel = { strategy: 'NO_SHARD' } as const;
  const place = { on: 'A100-80G', gpus: 1, baseWeights: 'nf4', parallel } as const;
  const { layout, assumed } = plannedInput(config, place);
  assert.ok(layout.trainedShare < 1 && layout.baseWeights === 'nf4');
  assert.ok(assumed.some(({ says }) => says.includes('planned in memory only')));
});

test('4-bit weights without adapters, with sharding, experts or tp are refused with what to give', () => {
  const of = (changes: object) => () =>
    layoutOfLine({ model: 'llama3-8b', gpus: 8, baseWeights: 'nf4', trainedShare: 0.01, ...changes });
  assert.throws(of({ trainedShare: 1 }), /only adapters train; give lora/);
  assert.throws(of({ parallel: { strategy: 'FULL_SHARD' } }), /whole on every GPU.*strategy: 'NO_SHARD'/s);
  assert.throws(of({ parallel: { tp: 2 } }), /tp 2/);
  assert.throws(of({ model: 'DeepSeek-V2' }), /has no experts and no latent attention/);
  const inference = () =>
    inferenceMemory(layoutOfLine({ model: 'llama3-8b', gpus: 8, parallel: { tp: 8 } }), { weights: 'nf4' });
  assert.throws(inference, /weights in NF4.*tp 8/);
});

test('a search over 4-bit weights finds only layouts that a plan accepts; fp8 and offload are refused', () => {
  const request = {
    model: 'Qwen/Qwen3-32B',
    hardware: 'L40S-48G',
    gpus: 2,
    baseWeights: 'nf4',
    trainedShare: 0.01,
    parallel: { strategy: 'NO_SHARD', stack: 'fsdp2' },
    batch: { global: 16 },
  } as const;
  const found = [...candidates(layoutOfLine(request))];
  assert.ok(found.length > 0);
  for (const layout of found) {
    const { config, place } = configOfLayout(layout, { model: request.model, mixedPrecision: 'bf16' });
    assert.equal(layoutOf({ ...config, ...place }).baseWeights, 'nf4');
  }
  assert.throws(() => layoutOfLine({ ...request, precision: 'fp8' }), /leave out offload and fp8/);
  assert.throws(() => layoutOfLine({ ...request, offload: { optimizer: true } }), /leave out offload/);
});
