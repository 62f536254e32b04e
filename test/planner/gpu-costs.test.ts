import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { TrainConfigInput } from '../../src/config/train-config';
import type { HalfDType } from '../../src/core/dtypes';
import { ShardlabError } from '../../src/core/errors';
import { FUSED } from '../../src/engine/backend/fused/fused-kernel';
import type { KernelCall, KernelTensor } from '../../src/engine/backend/kernel-costs';
import { CALIBRATION } from '../../src/planner/calibration';
import { productSeconds, trafficSeconds } from '../../src/planner/cost/gemm';
import { dryRun } from '../../src/planner/dry-run/dry-run';
import { gpuCosts, placeOfRanks } from '../../src/planner/dry-run/gpu-costs';
import { flopsOf, workOf } from '../../src/planner/dry-run/kernel-work';
import { hardwareOf } from '../../src/planner/hardware';

const A100 = hardwareOf('A100-80G');

function tensor(shape: readonly number[], declared?: HalfDType): KernelTensor {
  return { shape, dtype: 'float32', declared };
}

function called(call: Partial<KernelCall>): KernelCall {
  const nothing = { name: '', inputs: [], outputs: [], attrs: {}, declared: undefined, module: '' } as const;
  return { ...nothing, place: 'device', ...call };
}

const LINEAR = called({
  name: FUSED.linear,
  inputs: [tensor([64, 32], 'bfloat16'), tensor([96, 32], 'bfloat16'), tensor([96], 'bfloat16')],
  outputs: [tensor([64, 96], 'bfloat16')],
  declared: 'bfloat16',
});

test("matmuls take the planner's time at the declared type, other kernels the time to read and write their tensors", () => {
  const { kernel } = gpuCosts(A100, { ...CALIBRATION, launchSeconds: 0 });
  const product = { m: 64, n: 96, k: 32 };
  assert.equal(kernel?.(LINEAR), productSeconds(product, A100, 'bf16', CALIBRATION));
  assert.equal(
    kernel?.({ ...LINEAR, declared: undefined }),
    productSeconds(product, A100, 'fp32', CALIBRATION),
  );
  const gelu = called({
    name: FUSED.gelu,
    inputs: [tensor([1000], 'bfloat16')],
    outputs: [tensor([1000], 'bfloat16')],
  });
  assert.equal(kernel?.(gelu), trafficSeconds(4000, A100, CALIBRATION));
  assert.equal(kernel?.(called({ name: 'round', inputs: [tensor([1000])], outputs: [tensor([1000])] })), 0);
});

test("an operation's work follows from its shapes, also for transposed and batched matmuls and tables", () => {
  const product = (name: string, a: number[], b: number[], out: number[], attrs = {}) =>
    flopsOf(workOf(called({ name, inputs: [tensor(a), tensor(b)], outputs: [tensor(out)], attrs })));
  assert.equal(flopsOf(workOf(LINEAR)), 2 * 64 * 96 * 32);
  assert.equal(
    product('BatchMatMul', [3, 8, 5], [3, 8, 7], [3, 5, 7], { transposeA: true }),
    2 * 3 * 8 * 5 * 7,
  );
  const windows = 2 * 4 * 4 * 3 * 3 * 5 * 6;
  assert.equal(product('Conv2D', [1, 4, 4, 5], [3, 3, 5, 6], [1, 4, 4, 6]), windows);
  assert.equal(product('Conv2DBackpropInput', [1, 4, 4, 6], [3, 3, 5, 6], [1, 4, 4, 5]), windows);
  assert.equal(product('Conv2DBackpropFilter', [1, 4, 4, 5], [1, 4, 4, 6], [3, 3, 5, 6]), windows);
  // Two images [4, 5, 5], two groups of 3 outputs, 3 x 2 filters.
  const [image, filter, result] = [
    [2, 4, 5, 5],
    [6, 2, 3, 2],
    [2, 6, 3, 4],
  ];
  const inGroups = 2 * 2 * 6 * 3 * 4 * (2 * 3 * 2);
  assert.equal(product(FUSED.conv2d, image, filter, result, { groups: 2 }), inGroups);
  assert.equal(product(FUSED.conv2dInputGrad, result, filter, image, { groups: 2 }), inGroups);
  assert.equal(product(FUSED.conv2dFilterGrad, image, result, filter, { groups: 2 }), inGroups);
  const flash = { name: FUSED.flashAttention, attrs: { causal: true }, outputs: [tensor([2, 16, 4, 8])] };
  const q = tensor([2, 16, 4, 8]);
  assert.equal(flopsOf(workOf(called({ ...flash, inputs: [q, q, q] }))), 2 * 2 * 2 * 4 * 16 * 16 * 8 * 0.5);
  const lookup = called({
    name: FUSED.embedding,
    inputs: [tensor([1000, 8]), { shape: [4], dtype: 'int32', declared: undefined }],
    outputs: [tensor([4, 8])],
  });
  assert.equal(workOf(lookup).bytes, 2 * 4 * 4 * 8 + 4 * 4, 'the rows that are read, not the table');
});

test('launches are hidden behind the device while the host is ahead', () => {
  const costs = gpuCosts(A100, { ...CALIBRATION, launchSeconds: 1e-3 });
  const small = called({ name: 'Add', inputs: [tensor([1])], outputs: [tensor([1])] });
  const bytes = 4e9;
  const large = called({ name: 'Add', inputs: [tensor([bytes / 8])], outputs: [tensor([bytes / 8])] });
  const device = trafficSeconds(bytes, A100, CALIBRATION);
  assert.ok((costs.kernel?.(small) ?? 0) >= 1e-3);
  assert.ok(Math.abs((costs.kernel?.(large) ?? 0) - device - 1e-3) < 1e-6, 'the host had just caught up');
  assert.ok((costs.kernel?.(small) ?? 1) < 1e-6);
});

test('groups are mapped to nodes by their ranks', () => {
  const upTo = (count: number, stride = 1) => Array.from({ length: count }, (_, i) => i * stride);
  assert.deepEqual(placeOfRanks(upTo(8), 8), { size: 8, perNode: 8 });
  assert.deepEqual(placeOfRanks(upTo(16), 8), { size: 16, perNode: 8 });
  assert.deepEqual(placeOfRanks(upTo(12), 8), { size: 12, perNode: 4 });
  assert.deepEqual(placeOfRanks(upTo(4, 8), 8), { size: 4, perNode: 1 });
});

test('one figure of a known GPU can be replaced; unknown GPUs and two sources of times are refused', () => {
  const config: TrainConfigInput = {
    model: { kind: 'gpt', layers: 2, dim: 256, heads: 4, vocab: 256, seq: 64 },
  };
  const slow = dryRun(config, { world: 8, hardware: { like: 'A100-80G', linkGBps: 1 } });
  const fast = dryRun(config, { world: 8, hardware: 'A100-80G' });
  assert.ok(slow.exposedSeconds > fast.exposedSeconds);
  const hasCode = (message: RegExp) => (error: unknown) =>
    error instanceof ShardlabError && error.code === 'CONFIG' && message.test(error.message);
  assert.throws(() => dryRun(config, { world: 8, hardware: 'A100-80' }), hasCode(/did you mean/));
  assert.throws(
    () => dryRun(config, { world: 8, hardware: 'A100-80G', costs: {} }),
    hasCode(/leave one of them out/),
  );
});
