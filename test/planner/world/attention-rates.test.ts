import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ATTENTION_KERNELS } from '../../../src/config/attention-kernels';
import { CALIBRATION } from '../../../src/planner/calibration';
import { type AttentionCore, attentionRates, attentionSeconds } from '../../../src/planner/cost/attention';
import { GPUS } from '../../../src/planner/hardware';

const A100 = GPUS['A100-80G'];
const H100 = GPUS['H100-80G'];
const LONG = { keys: 8192, headDim: 128, causal: true } as const;

test('forward and backward together have the published rate of both; flash1 is fitted with heads of 128', () => {
  // Dao-AILab/flash-attention, flash2_a100_fwd_bwd_benchmark.png: heads of 128, causal, 8192 tokens.
  for (const [kernel, published] of [
    ['flash1', 80 * 1.12],
    ['triton', 78],
    ['efficient', 91],
    ['flash', 182],
  ] as const) {
    const { forward, backward } = attentionRates(kernel, LONG, A100);
    assert.ok(Math.abs(3.5 / (1 / forward + 2.5 / backward) - published) < 0.5, kernel);
  }
});

test('on H100, forward and backward have the rates of their own figures, and scale with the rate of matmuls', () => {
  assert.deepEqual(attentionRates('flash3', { ...LONG, causal: false }, H100), {
    forward: 646,
    backward: 559,
  });
  const slow = attentionRates('flash3', { ...LONG, causal: false }, { ...H100, gemmTflops: 397 });
  assert.deepEqual(slow, { forward: 323, backward: 279.5 });
});

test('a rate between two lengths or two head sizes lies between theirs, and grows from few keys on', () => {
  const at = (change: object) => attentionRates('flash', { ...LONG, ...change }, A100).forward;
  assert.ok(at({ keys: 3000 }) > at({ keys: 2048 }) && at({ keys: 3000 }) < at({ keys: 4096 }));
  assert.ok(at({ headDim: 96 }) > at({ headDim: 64 }) && at({ headDim: 96 }) < at({ headDim: 128 }));
  assert.ok(at({ keys: 128 }) < at({ keys: 256 }) && at({ keys: 256 }) < at({ keys: 512 }));
  assert.equal(at({ headDim: 32 }), at({ headDim: 64 }) / 2);
});

test('every kernel has a time on every GPU, and FlashAttention 2 is faster than its predecessors on A100', () => {
  const core = { batch: 32, queries: 4096, keys: 4096, headDim: 128, causal: true, dropout: false } as const;
  const time = (kernel: AttentionCore['kernel'], gpu: (typeof GPUS)[keyof typeof GPUS]) => {
    const { forward, backward } = attentionSeconds({ ...core, kernel }, gpu, 'bf16', CALIBRATION);
    return forward + backward;
  };
  for (const gpu of Object.values(GPUS)) {
    for (const kernel of ATTENTION_KERNELS) {
      const seconds = time(kernel, gpu);
      assert.ok(seconds > 0 && Number.isFinite(seconds), kernel);
    }
  }
  for (const older of ['flash1', 'triton', 'efficient'] as const) {
    assert.ok(time(older, A100) > 1.9 * time('flash', A100), older);
  }
});
