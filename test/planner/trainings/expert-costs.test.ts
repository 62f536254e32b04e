import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CALIBRATION } from '../../../src/planner/calibration';
import { configOfLayout } from '../../../src/planner/config-of-layout';
import { copiesOf, expertExchangeCost, permutedBytes } from '../../../src/planner/cost/expert-exchange';
import { expertKernels } from '../../../src/planner/cost/expert-launches';
import { castBytes } from '../../../src/planner/cost/fp8-casts';
import { matmulRateOf, productSeconds } from '../../../src/planner/cost/gemm';
import { GENERATIONS } from '../../../src/planner/generations';
import { hardwareOf } from '../../../src/planner/hardware';
import type { Layout } from '../../../src/planner/layout';
import { layoutOf } from '../../../src/planner/plan-input';
import { predict } from '../../../src/planner/predict';
import { layerTime, passWithExperts } from '../../../src/planner/time/layer-time';
import { outerTime } from '../../../src/planner/time/outer-time';
import { NO_PASS, passSeconds } from '../../../src/planner/time/pass';
import { layoutOfLine } from '../../support/batch-lines';

/** Qwen3-30B-A3B: 128 experts, of which a token visits 8; dim 2048, experts' width 768. */
function layout(changes: object = {}, parallel: object = {}): Layout {
  return layoutOfLine({
    ...{ model: 'Qwen3-30B-A3B', seq: 4096, hardware: 'H100-80G', gpus: 16, attention: 'cudnn' },
    parallel: { stack: 'megatron', strategy: 'ZERO_1', ep: 8, ...parallel },
    batch: { micro: 1, global: 64 },
    ...changes,
  });
}

const near = (actual: number, expected: number, share = 1e-9): void =>
  assert.ok(Math.abs(actual / expected - 1) < share, `${actual} is not ${expected}`);

test('an all-to-all sends a copy to each expert, DeepEP and HybridEP one to each rank and node', () => {
  assert.deepEqual(copiesOf({ size: 8, perNode: 8 }, 8, 'alltoall'), { inside: 7, outside: 0 });
  assert.deepEqual(copiesOf({ size: 16, perNode: 8 }, 8, 'alltoall'), { inside: 3.5, outside: 4 });
  const { inside, outside } = copiesOf({ size: 16, perNode: 8 }, 8, 'deepep');
  near(inside, (16 * (1 - (15 / 16) ** 8) * 7) / 8);
  near(outside, 1 - 0.5 ** 8);
  // One expert per token needs one copy, whoever sends it.
  const [a, b] = [
    copiesOf({ size: 8, perNode: 8 }, 1, 'alltoall'),
    copiesOf({ size: 8, perNode: 8 }, 1, 'hybridep'),
  ];
  near(a.inside, b.inside);
});

test("an exchange between nodes takes the time of a GPU's own network card, and one hop however many ranks there are", () => {
  const own = layout({}, { ep: 16 });
  const row = 4096 * 2048 * 2;
  const card = (400e9 * CALIBRATION.nicEfficiency) / 8;
  const start = CALIBRATION.collectiveSeconds + CALIBRATION.hopSeconds;
  near(expertExchangeCost(own, 4096, CALIBRATION).seconds, 2 * (start + (row * 4) / card));
  near(expertExchangeCost(own, 4096, CALIBRATION).bytes, 2 * row * 7.5);
  const rack = (ep: number): number =>
    expertExchangeCost(layout({ gpus: 64, gpusPerNode: 64, hardware: 'GB200' }, { ep }), 1, CALIBRATION)
      .seconds;
  near(rack(64), rack(8), 0.01);
});

test('tokens are ordered once without an exchange, three times around an all-to-all, and fewer times in DeepEP', () => {
  const rows = (parallel: object): number => {
    const own = layout({}, parallel);
    return own.model.moe === null ? 0 : permutedBytes(own, own.model.moe) / (2 * 2048);
  };
  near(rows({ ep: 1 }), 18);
  near(rows({ ep: 8 }), 50);
  near(rows({ ep: 8, dispatcher: 'deepep' }), 16 + 16 * (1 - (7 / 8) ** 8));
});

test("the CPU launches each expert's matmuls and casts, except those in a graph", () => {
  const count = (changes: object): number => expertKernels(layout(changes), 'forward');
  assert.equal(count({}), 30 + 16 * (2 / 2));
  assert.equal(count({ precision: 'fp8' }), 30 + 16 * (2 / 2 + 2 * 3));
  assert.equal(count({ precision: 'fp8', hardware: 'B200' }), 30 + 16 * (2 / 2 + 2));
  assert.equal(count({ cudaGraph: 'router' }), 15 + 16 * (2 / 2));
  assert.equal(count({ cudaGraph: 'iteration' }), 0);
  assert.equal(expertKernels(layout(), 'backward'), 30 + 16 * ((4 + 2) / 2));
});

test('launches hide behind kernels of the same part of a layer, because the CPU waits between its parts', () => {
  const before = { ...NO_PASS, products: 5, host: 1 };
  const experts = { ...NO_PASS, products: 1, host: 4 };
  assert.equal(passSeconds(passWithExperts(layout(), before, experts, 0.5)), 5 + 0.5 + 4);
  const graph = passWithExperts(layout({ cudaGraph: 'iteration' }), before, { ...experts, host: 0 }, 0.5);
  assert.equal(passSeconds(graph), 6);
  const { forward } = layerTime(layout({ cudaGraph: 'iteration' }), CALIBRATION);
  assert.equal(forward.host, 0);
});

test('an overlapped exchange takes its excess over compute and its multiprocessors, except beside the first microbatch', () => {
  const experts = (comm: number) => ({ ...NO_PASS, products: 3, comm });
  const comm = (wire: number, numMicroBatches = 4): number =>
    passWithExperts(
      { ...layout({ cudaGraph: 'iteration' }, { overlapExperts: true }), numMicroBatches },
      { ...NO_PASS, attention: 1 },
      experts(wire),
      0,
    ).comm;
  near(comm(2), (3 / 4) * ((2 * 32) / 132) + (1 / 4) * 2);
  near(comm(6), (3 / 4) * (2 + (4 * 32) / 132) + (1 / 4) * 6);
  near(comm(2, 1), 2);
  const says = (cudaGraph: string): boolean =>
    predict(layout({ cudaGraph }, { overlapExperts: true })).outside.some((text) =>
      /is not known/.test(text),
    );
  assert.deepEqual([says('router'), says('iteration')], [true, false]);
});

test('fp8 casts the inputs of last matmuls and the gradients of all outputs, and only within the layers', () => {
  assert.deepEqual(castBytes(layout()), { forward: 0, backward: 0 });
  const heads = 4096;
  assert.deepEqual(castBytes(layout({ precision: 'fp8' })), {
    forward: 4 * (heads + 8 * 768 + 8 * 2048),
    backward: 4 * (heads + 2 * 512 + 2 * 8 * 768 + 2048 + 8 * 2048),
  });
  const head = (precision: string): number =>
    outerTime(layout({ precision }), CALIBRATION).last.forward.products;
  assert.equal(head('fp8'), head('bf16'));
});

test('fp8 shortens the loop of a matmul by its published rate, not prologue and epilogue; only 16 bits fall below the measured rate', () => {
  const gpu = hardwareOf('H100-80G');
  assert.equal(matmulRateOf('fp8', gpu), 1.78);
  const gain = (k: number): number =>
    productSeconds({ m: 16_384, n: 16_384, k }, gpu, 'bf16', CALIBRATION) /
    productSeconds({ m: 16_384, n: 16_384, k }, gpu, 'fp8', CALIBRATION);
  const { sustained } = GENERATIONS.hopper;
  assert.equal(sustained, 0.86);
  near(gain(1e9), 1.78 / sustained, 1e-3);
  const ramp = CALIBRATION.gemmRampK;
  near(gain(768), (768 + ramp) / sustained / (768 / 1.78 + ramp), 1e-3);
});

test('overlapped tensor parallelism waits for one of its tp parts', () => {
  const comm = (tp: number, asyncTensorParallel: boolean): number => {
    const parallel = {
      stack: 'megatron',
      strategy: 'ZERO_1',
      tp,
      sequenceParallel: true,
      asyncTensorParallel,
    };
    return layerTime(layoutOfLine({ model: 'llama3-70b', gpus: 8, parallel }), CALIBRATION).forward.comm;
  };
  for (const tp of [2, 4, 8]) near(comm(tp, true), comm(tp, false) / tp);
});

test("attention's copies follow its own width, and rotary embeddings read and write queries and keys", () => {
  const moved = (changes: object): number => {
    const model = {
      kind: 'llama',
      layers: 2,
      dim: 1024,
      heads: 8,
      kvHeads: 8,
      ffn: 4096,
      vocab: 1000,
      seq: 1024,
    };
    const request = { model: { ...model, ...changes }, gpus: 1, parallel: { stack: 'megatron' } };
    return layerTime(layoutOfLine({ ...request, batch: { micro: 4 } }), CALIBRATION).forward.elementwise;
  };
  const bytes = CALIBRATION.memoryEfficiency * 2e12 * (moved({ headDim: 256 }) - moved({ headDim: 128 }));
  near(bytes, 4 * 1024 * 1024 * (4 * 4 + 4 * 2));
});

test('only a tied head that one rank computes is slower than other matmuls', () => {
  const seconds = (tied: boolean): number => {
    const model = { kind: 'llama', layers: 2, dim: 4096, heads: 32, vocab: 128_000, seq: 4096, tied };
    const request = { model, gpus: 1, parallel: { stack: 'megatron' } };
    return outerTime(layoutOfLine(request), CALIBRATION).last.forward.products;
  };
  near(seconds(true), seconds(false) / CALIBRATION.wholeHeadEfficiency);
});

test('a fused loss moves 10 bytes per logit in Megatron-LM too', () => {
  const moved = (compileLoss: boolean): number => {
    const { forward, backward } = outerTime(layout({ compileLoss }), CALIBRATION).last;
    return forward.elementwise + backward.elementwise;
  };
  const bytes = CALIBRATION.memoryEfficiency * 3.35e12 * (moved(false) - moved(true));
  near(bytes, (CALIBRATION.lossBytes - 10) * 4096 * layout().model.logits, 1e-6);
});

test('large square matmuls are not planned faster than they were measured', () => {
  // TFLOP/s at 8192 x 8192 x 8192 in bf16. Source: ai-dynamo/aiconfigurator, systems/data, TensorRT-LLM.
  const measured = { H100: 782.7, B200: 1491.6, B300: 1598.4, GB200: 1407.4, GB300: 1868.1 };
  const size = { m: 8192, n: 8192, k: 8192 };
  for (const [name, tflops] of Object.entries(measured)) {
    const gpu = hardwareOf(name === 'H100' ? 'H100-80G' : name);
    const planned = (2 * 8192 ** 3) / productSeconds(size, gpu, 'bf16', CALIBRATION) / 1e12;
    assert.ok(planned < 1.02 * tflops, `${name}: ${planned.toFixed(0)} of ${tflops}`);
  }
});

test('the config and the place of a layout repeat what it says of experts and graphs', () => {
  const own = layout({ cudaGraph: 'attention' }, { dispatcher: 'hybridep', overlapExperts: true });
  const { config, place } = configOfLayout(own, {
    model: { like: 'Qwen3-30B-A3B', seq: 4096 },
    mixedPrecision: { paramDtype: 'bf16', reduceDtype: own.reduceDtype },
  });
  assert.deepEqual(layoutOf({ ...config, ...place }), own);
});
