import assert from 'node:assert/strict';
import { test } from 'node:test';
import { candidates } from '../../src/planner/candidates';
import type { Layout } from '../../src/planner/layout';
import { stageOf } from '../../src/planner/memory/pipeline-stage';
import { memoryPhases, predictMemory } from '../../src/planner/memory/predict-memory';
import { modelFlops } from '../../src/planner/model-flops';
import { shapeOf } from '../../src/planner/model-shape';
import { modelOf } from '../../src/planner/models';
import { predictTime } from '../../src/planner/time/predict-time';
import { layoutOfLine } from '../support/batch-lines';

const GPT = {
  model: { kind: 'gpt', layers: 24, dim: 2048, heads: 16, seq: 1024, vocab: 51_200 },
  hardware: 'A100-80G',
  gpus: 8,
  batch: { global: 32, micro: 2 },
};

const LLAMA = { ...GPT, model: { ...GPT.model, kind: 'llama' }, hardware: 'H100-80G' };

function layout(request: object, parallel: object, more: object = {}): Layout {
  return layoutOfLine({ ...request, ...more, parallel });
}

test('a distributed optimizer sends as many gradient bytes as plain data parallelism', () => {
  const bytes = (strategy: string): number =>
    predictTime(layout(GPT, { strategy, stack: 'megatron' }, { precision: 'fp16' })).commBytes.dp;
  const params = shapeOf({ ...GPT.model, kind: 'gpt' }).params;
  // An all-reduce of 16-bit gradients; a reduce-scatter of them and an all-gather of 16-bit parameters.
  assert.ok(Math.abs(bytes('NO_SHARD') / (2 * 2 * params * (7 / 8)) - 1) < 1e-9);
  assert.equal(bytes('ZERO_1'), bytes('NO_SHARD'));
});

test('a text encoder has no head: no logits in memory, in time or in operations', () => {
  const encoder = layoutOfLine({
    model: 'umt5-xxl-encoder',
    gpus: 8,
    batch: { micro: 4 },
    parallel: { pp: 2 },
  });
  const shape = shapeOf(modelOf('umt5-xxl-encoder'));
  const layer = 4 * 4096 ** 2 + 3 * 4096 * 10_240 + 2 * 512 * 4096;
  assert.equal(modelFlops(shape, 1), 6 * 512 * 24 * layer);
  const last = stageOf(encoder, 1);
  assert.equal(last.headParams, 4096, 'the last norm');
  assert.ok(!memoryPhases(encoder, last).some(({ name }) => name === 'loss'));
  assert.equal(predictTime(encoder).computeByCause.loss, 0);
});

test('a block with cross-attention has three pairs of matmuls that tensor parallelism shards', () => {
  const wan = { model: 'wan2.2-a14b', gpus: 4, batch: { global: 1 } };
  const { commBytes } = predictTime(layout(wan, { tp: 4, stack: 'fsdp2' }));
  const activation = 32_760 * 5120 * 2;
  assert.ok(Math.abs(commBytes.tp / (40 * 3 * 2 * activation * 2 * (3 / 4)) - 1) < 1e-9);
});

test('the copies of gathered buffers take time on the device, and the causes still add up', () => {
  for (const stack of ['fsdp2', 'deepspeed']) {
    const time = predictTime(layout(LLAMA, { stack }));
    const sum = Object.values(time.computeByCause).reduce((total, each) => total + each, 0);
    assert.ok(Math.abs(sum / time.compute - 1) < 1e-9, stack);
    assert.ok(Math.abs((time.compute + time.exposedComm + time.bubble) / time.seconds - 1) < 1e-9, stack);
  }
  const elementwise = (strategy: string): number =>
    predictTime(layout(LLAMA, { stack: 'fsdp2', strategy })).computeByCause.elementwise;
  const { layerParams, layers } = shapeOf({ ...LLAMA.model, kind: 'llama' });
  // Two microbatches, each: two gathers (read and written at 2 bytes), one reduction (2 read, 4 written), at 0.88 of 3.35 TB/s.
  const copies = (2 * layers * layerParams * (4 + 4 + 6)) / (0.88 * 3.35e12);
  assert.ok(Math.abs((elementwise('FULL_SHARD') - elementwise('NO_SHARD')) / copies - 1) < 1e-9);
});

test("parameters are gathered in fp8, with half of bf16's bytes", () => {
  const gathered = (precision: string): number => {
    const each = (strategy: string): number =>
      predictTime(layout(LLAMA, { stack: 'fsdp2', strategy }, { precision })).commBytes.dp;
    return each('FULL_SHARD') - each('SHARD_GRAD_OP');
  };
  assert.ok(Math.abs(gathered('bf16') / gathered('fp8') - 2) < 1e-9);
});

test('attention in float32 takes twice the time of 16 bits, and fp8 the time of 16 bits', () => {
  const attention = (precision: string): number =>
    predictTime(layout(LLAMA, { stack: 'fsdp2' }, { precision })).computeByCause.attention;
  assert.ok(Math.abs(attention('fp32') / attention('bf16') - 2) < 1e-9);
  assert.equal(attention('fp8'), attention('bf16'));
});

test('float32 matmuls run as TF32 at half the rate of 16 bits, except on V100, which has no TF32', () => {
  const products = (hardware: string, precision: string): number =>
    predictTime(layout({ ...LLAMA, hardware }, { stack: 'fsdp2' }, { precision })).computeByCause.products;
  const ratio = (hardware: string, precision: string): number =>
    products(hardware, precision) / products(hardware, 'bf16');
  assert.ok(Math.abs(ratio('V100-32G', 'fp32') / (125 / 15.7) - 1) < 0.01);
  assert.ok(Math.abs(ratio('A100-80G', 'fp32') / 2 - 1) < 0.01);
});

test("DeepSpeed's optimizer on the host also has the gradients there, as in its estimators", () => {
  const held = (strategy: string, offload: object): number =>
    predictMemory(layout(GPT, { strategy, stack: 'deepspeed' }, { offload })).grads;
  const params = shapeOf({ ...GPT.model, kind: 'gpt' }).params;
  for (const strategy of ['ZERO_2', 'FULL_SHARD']) {
    const gone = held(strategy, {}) - held(strategy, { optimizer: true });
    assert.ok(Math.abs(gone / ((2 * params) / 8) - 1) < 1e-9, strategy);
  }
});

test('the optimizer step converts 1e9 gradients per rank at once under ZeRO-3, and all under ZeRO-2', () => {
  const step = (strategy: string): number => {
    const wide = layout({ ...GPT, model: { params: 27e9 } }, { strategy, stack: 'deepspeed' });
    const phases = memoryPhases(wide, stageOf(wide, 0));
    const temporary = (name: string): number => phases.find((phase) => phase.name === name)?.temporary ?? 0;
    return temporary('optimizer step') - temporary('outer reduction');
  };
  assert.ok(Math.abs(step('FULL_SHARD') / 4e9 - 1) < 1e-9);
  assert.ok(Math.abs(step('ZERO_2') / ((4 * 27e9) / 8) - 1) < 1e-9);
});

test('fully_shard offloads all states or none; DeepSpeed can also offload only the optimizer', () => {
  const base = layout(GPT, { stack: 'deepspeed' });
  const tried = (stack: 'fsdp2' | 'deepspeed'): string[] => {
    const found = [...candidates(base, { stacks: [stack], strategies: ['FULL_SHARD'] })];
    return [...new Set(found.map(({ offload }) => JSON.stringify(offload)))];
  };
  const [none, optimizer, all] = [
    '{"optimizer":false,"parameters":false}',
    '{"optimizer":true,"parameters":false}',
    '{"optimizer":true,"parameters":true}',
  ];
  assert.deepEqual(tried('fsdp2'), [none, all]);
  assert.deepEqual(tried('deepspeed'), [none, optimizer, all]);
});
