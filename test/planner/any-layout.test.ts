import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { predict } from '../../src/planner/predict';
import type { Prediction } from '../../src/planner/prediction';
import { layoutOfLine } from '../support/batch-lines';
import { HAS_ALL_CASES } from '../support/cases';

const ONE_OF = {
  tp: [1, 2, 4, 8],
  pp: [1, 2, 4, 8],
  cp: [1, 1, 2, 4],
  dp: [1, 2, 8, 64, 256],
  micro: [1, 2, 8],
  accumulation: [8, 16],
  kind: ['gpt', 'llama', 'dit', 't5-encoder'],
  layers: [16, 24, 96],
  heads: [8, 32, 64],
  headDim: [64, 128],
  seq: [128, 2048, 32_768],
  vocab: [100, 51_200, 256_384],
  hardware: [
    'V100-32G',
    'A100-80G',
    'H100-80G',
    'B200-180G',
    'RTX4090-24G',
    'MI300X-192G',
    'Ascend-910B-64G',
  ],
  gpusPerNode: [1, 4, 8, 72],
  nicGbit: [25, 100, 3200],
  strategy: ['NO_SHARD', 'ZERO_1', 'ZERO_2', 'SHARD_GRAD_OP', 'FULL_SHARD', 'HYBRID_SHARD'],
  stack: ['megatron', 'fsdp2', 'deepspeed'],
  precision: ['fp32', 'fp16', 'bf16'],
  recompute: ['none', 'selective', 'full'],
  virtualStages: [1, 2],
  attention: ['unfused', 'flash1', 'triton', 'efficient', 'flash', 'flash3', 'cudnn'],
} as const;

type Chosen = { readonly [Key in keyof typeof ONE_OF]: (typeof ONE_OF)[Key][number] };

/** Any layout of any model, with independent settings. */
const anyRequest = fc
  .record({
    // Each key's arbitrary gives one of its own values.
    chosen: fc.record(
      Object.fromEntries(Object.entries(ONE_OF).map(([key, of]) => [key, fc.constantFrom(...of)])),
    ) as unknown as fc.Arbitrary<Chosen>,
    flags: fc.record({
      sequenceParallel: fc.boolean(),
      compile: fc.boolean(),
      optimizer: fc.boolean(),
      parameters: fc.boolean(),
    }),
  })
  .map(({ chosen, flags }) => requestOf(chosen, flags));

function requestOf(
  chosen: Chosen,
  flags: { sequenceParallel: boolean; compile: boolean; optimizer: boolean; parameters: boolean },
) {
  const { tp, pp, cp, dp, strategy, stack, micro, accumulation, kind, layers, heads, headDim, seq, vocab } =
    chosen;
  const { hardware, gpusPerNode, nicGbit, precision, recompute, virtualStages, attention } = chosen;
  const { sequenceParallel, compile, optimizer, parameters } = flags;
  return {
    model: { kind, layers, dim: heads * headDim, heads, seq, vocab },
    parallel: { dp, tp, pp, cp, strategy, stack, sequenceParallel },
    batch: { micro, global: micro * accumulation * dp },
    offload: { optimizer, parameters },
    gpus: dp * tp * pp * cp,
    ...{ hardware, gpusPerNode, nicGbit, precision, recompute, virtualStages, attention, compile },
  };
}

type AnyRequest = ReturnType<typeof requestOf>;

const RUNS = { numRuns: HAS_ALL_CASES ? 400 : 130, seed: 5 };

function predictionOf(request: AnyRequest): Prediction {
  return predict(layoutOfLine(request));
}

function assertSum(parts: Readonly<Record<string, number>>, whole: number): void {
  const values = Object.values(parts);
  for (const [name, value] of Object.entries(parts))
    assert.ok(Number.isFinite(value) && value >= 0, `${name} ${value}`);
  const sum = values.reduce((total, value) => total + value, 0);
  assert.ok(Math.abs(sum - whole) <= 1e-9 * whole, `${sum} is not ${whole}`);
}

test('for any layout causes are not negative and add up, and intervals contain their value', () => {
  fc.assert(
    fc.property(anyRequest, (request) => {
      const { time, memory, seconds, mfu } = predictionOf(request);
      const { compute, exposedComm, bubble } = time;
      assertSum({ compute, exposedComm, bubble }, time.seconds);
      assertSum(time.computeByCause, compute);
      const { params, grads, optimizer, activations, temporary, peak } = memory;
      assertSum({ params, grads, optimizer, activations, temporary }, memory.peakBytes);
      assert.ok(seconds.low <= seconds.value && seconds.value <= seconds.high);
      assert.ok(peak.low <= peak.value && peak.value <= peak.high);
      // Causal kernels skip half of the operations that model FLOP/s count.
      assert.ok(mfu > 0 && mfu < 0.95, `MFU ${mfu}`);
    }),
    RUNS,
  );
});

/** Changes that can never make a layout faster. */
const NEVER_FASTER: Readonly<Record<string, (request: AnyRequest) => [object, object]>> = {
  'a slower card': (request) => [
    { ...request, nicGbit: 400 },
    { ...request, nicGbit: 200 },
  ],
  'full recompute': (request) => [
    { ...request, recompute: 'none' },
    { ...request, recompute: 'full' },
  ],
  'twice the tokens': ({ model, ...request }) => [
    { ...request, model },
    { ...request, model: { ...model, seq: 2 * model.seq } },
  ],
  'op by op instead of compiled': (request) => [
    { ...request, compile: true },
    { ...request, compile: false },
  ],
};

for (const [change, pair] of Object.entries(NEVER_FASTER)) {
  test(`no layout gets faster by ${change}`, () => {
    fc.assert(
      fc.property(anyRequest, (request) => {
        const onGpu = { ...request, offload: { optimizer: false, parameters: false } };
        const [before, after] = pair(onGpu).map((each) => predict(layoutOfLine(each)).seconds.value);
        assert.ok(Number(after) >= Number(before) * (1 - 1e-9), `${before} s, then ${after} s`);
      }),
      RUNS,
    );
  });
}

test('virtual stages make the bubble smaller', () => {
  fc.assert(
    fc.property(anyRequest, (request) => {
      fc.pre(request.parallel.pp > 1);
      const bubbleOf = (virtualStages: number): number =>
        predict(layoutOfLine({ ...request, virtualStages })).time.bubble;
      assert.ok(bubbleOf(2) < bubbleOf(1));
    }),
    RUNS,
  );
});
