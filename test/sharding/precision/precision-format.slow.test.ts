import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { TrainConfigInput } from '../../../src/config/train-config';
import type { HalfDType } from '../../../src/core/dtypes';
import type { CommCause } from '../../../src/core/events';
import { HALF_FORMATS, roundValues } from '../../../src/core/rounding';
import { type PrecisionResult, type PrecisionRun, trainPrecisions } from './precision-rank';

const LAYERS = 2;
const MODEL = { kind: 'gpt', layers: LAYERS, dim: 16, heads: 2, vocab: 64, seq: 8 } as const;
const WORLD = 2;
const SCALED = { initScale: 2 ** 12 };

const RUNS = {
  fp32: { config: {}, steps: 1 },
  bf16: { config: { mixedPrecision: 'bf16' }, steps: 1 },
  fp16: { config: { mixedPrecision: 'fp16', gradScaler: SCALED }, steps: 1 },
  'bf16, kept': low({ keepLowPrecisionGrads: true }),
  'bf16, taken up': low({ keepLowPrecisionGrads: false }),
  'bf16 under ZeRO-1, kept': low({ keepLowPrecisionGrads: true }, 'ZERO_1'),
  'fp16, scaled too far': {
    config: { mixedPrecision: 'fp16', gradScaler: { initScale: 2 ** 34 }, optimizer: { lr: 1e-2 } },
    steps: 24,
  },
} as const satisfies Record<string, Omit<PrecisionRun, 'name'>>;
type RunName = keyof typeof RUNS;

/** Two microbatches that are both reduced, so that reduced gradients are added up. */
function low(policy: object, strategy: 'FULL_SHARD' | 'ZERO_1' = 'FULL_SHARD') {
  const mixedPrecision = { paramDtype: 'bf16', ...policy } as const;
  const config: TrainConfigInput = { mixedPrecision, accumulation: 2, parallel: { strategy, noSync: false } };
  return { config, steps: 1 };
}

const runs = Object.entries(RUNS).map(([name, { config, steps }]): PrecisionRun => {
  const settings: TrainConfigInput = { model: MODEL, data: 'synthetic', batch: 2, ...config };
  return { name, config: settings, steps };
});
const finished = trainPrecisions(WORLD, runs);
finished.catch(() => undefined); // each test that awaits it reports its failure

async function ranksOf(name: RunName): Promise<PrecisionResult[]> {
  const place = runs.findIndex((run) => run.name === name);
  return (await finished).map((results) => results[place] ?? assert.fail(name));
}

async function gradients(name: RunName): Promise<Float32Array> {
  const ranks = await ranksOf(name);
  const parts = ranks
    .flatMap((rank) => rank.parts)
    .sort((a, b) => a.name.localeCompare(b.name) || a.start - b.start);
  return Float32Array.from(parts.flatMap(({ grads }) => [...grads]));
}

function norm(values: Float32Array): number {
  return Math.sqrt(values.reduce((sum, value) => sum + value * value, 0));
}

/** ‖a − b‖/‖b‖ of all gradients together. */
async function gradientError(name: RunName): Promise<number> {
  const [actual, expected] = [await gradients(name), await gradients('fp32')];
  return norm(actual.map((value, i) => value - (expected[i] ?? Number.NaN))) / norm(expected);
}

/**
 * Rounding changes a value by at most u of its size: u = 2^-8 for bfloat16, 2^-11 for float16. Before a gradient there
 * are 2 L + 3 roundings one after another in a model of L blocks: of the input of every block and of its gradient on the way
 * back, of the parameters, of their gradients, and on the wire. To first order their effects add up, each times how strongly
 * the gradient depends on a relative change there. A pre-norm model with small weights has a factor of about one, because every
 * block's input is normalized: the bound is (2 L + 3) u.
 */
const NUM_ROUNDINGS = 2 * LAYERS + 3;

for (const [name, half] of [
  ['bf16', 'bfloat16'],
  ['fp16', 'float16'],
] as const satisfies (readonly [RunName, HalfDType])[]) {
  test(`gradients in ${name} are within the bound of the format`, async (t) => {
    const bound = NUM_ROUNDINGS * HALF_FORMATS[half].unitRoundoff;
    const error = await gradientError(name);
    t.diagnostic(`${error.toExponential(2)}, bound ${bound.toExponential(2)}`);
    assert.ok(error <= bound, `${error} is above ${bound}`);
    assert.ok(error > bound / 100, 'values were rounded');
  });
}

test("the error is of first order in the unit roundoff: bfloat16's is about 8 times float16's", async () => {
  const ratio = (await gradientError('bf16')) / (await gradientError('fp16'));
  assert.ok(ratio > 4 && ratio < 16, `${ratio}`);
});

test("two bytes per element are sent instead of four; shards and the optimizer's states stay four", async () => {
  const [wide, narrow] = [await ranksOf('fp32'), await ranksOf('bf16')];
  const bytes = (ranks: readonly PrecisionResult[], cause: CommCause): number[] =>
    ranks.map(({ collectives }) =>
      collectives.filter((event) => event.cause === cause).reduce((sum, { wireBytes }) => sum + wireBytes, 0),
    );
  for (const cause of ['param', 'grad'] as const) {
    assert.ok((bytes(wide, cause)[0] ?? 0) > 0);
    assert.deepEqual(
      bytes(narrow, cause).map((sum) => 2 * sum),
      bytes(wide, cause),
    );
  }
  assert.deepEqual(
    narrow.map(({ shardBytes }) => shardBytes),
    wide.map(({ shardBytes }) => shardBytes),
  );
});

test('keepLowPrecisionGrads rounds sums of reduced gradients; without it the sums are float32', async () => {
  const numOthers = async (name: RunName): Promise<number> => {
    const values = await gradients(name);
    const rounded = values.slice();
    roundValues(rounded, 'bfloat16');
    return values.filter((value, i) => value !== rounded[i]).length;
  };
  assert.equal(await numOthers('bf16, kept'), 0);
  assert.equal(await numOthers('bf16 under ZeRO-1, kept'), 0);
  const { length } = await gradients('bf16, taken up');
  assert.ok((await numOthers('bf16, taken up')) > length / 4);
});

test('a scale that is too large skips steps on all ranks until it fits, and training continues', async (t) => {
  const ranks = await ranksOf('fp16, scaled too far');
  const [first] = ranks;
  for (const { skipped } of ranks) assert.deepEqual(skipped, first?.skipped);
  const { skipped = [], losses = [] } = first ?? {};
  const numSkipped = skipped.filter(Boolean).length;
  t.diagnostic(`${numSkipped} steps were left out`);
  assert.ok(numSkipped > 5 && numSkipped < skipped.length);
  assert.deepEqual(
    skipped,
    skipped.toSorted((a, b) => Number(b) - Number(a)),
    'those at the beginning',
  );
  assert.ok(losses.every(Number.isFinite));
  assert.ok((losses.at(-1) ?? 0) < (losses[0] ?? 0));
});
