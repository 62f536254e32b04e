import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import * as tf from '../../src/core/tf';
import type { RankScope } from '../../src/launch/rank/scope';
import { dryRun } from '../../src/planner/dry-run/dry-run';
import { compare } from '../../src/session/notebook/compare';
import { plan } from '../../src/session/notebook/plan';
import { recommend } from '../../src/session/notebook/recommend';
import { testData } from '../support/paths';

// Written by test/data/flop_reference.py with torch's FlopCounterMode.
const FLOPS = JSON.parse(readFileSync(testData('flop_reference.json'), 'utf8')) as Readonly<
  Record<string, number>
>;

const MLP = {
  model: ({ nn }: RankScope) =>
    new nn.Sequential(new nn.Linear(784, 512), new nn.ReLU(), new nn.Linear(512, 10)),
  loss: (output: tf.Tensor, { y }: { y: tf.Tensor }, { nn }: RankScope) =>
    nn.functional.crossEntropy(output, y as tf.Tensor1D),
  data: () => ({ x: tf.zeros([256, 784]), y: tf.zeros([256], 'int32') }),
};
const MLP_PARAMS = 784 * 512 + 512 + 512 * 10 + 10;

/** A residual network of images, as in test/data/flop_reference.py. */
function residual({ nn }: RankScope) {
  class Residual extends nn.Module {
    readonly stem = new nn.Conv2d(3, 8, 3, { padding: 1, bias: false });
    readonly norm = new nn.BatchNorm2d(8);
    readonly inner = new nn.Conv2d(8, 8, 3, { padding: 1 });
    readonly down = new nn.Conv2d(8, 16, 3, { stride: 2, padding: 1 });
    readonly head = new nn.Linear(16, 5);
    forward(x: tf.Tensor): tf.Tensor {
      const wide = tf.relu(this.norm.apply(this.stem.apply(x)));
      const small = tf.relu(this.down.apply(tf.add(wide, this.inner.apply(wide))));
      return this.head.apply(tf.mean(small, [2, 3]));
    }
  }
  return new Residual();
}
const RESIDUAL_PARAMS = 3 * 8 * 9 + 16 + (8 * 8 * 9 + 8) + (8 * 16 * 9 + 16) + (16 * 5 + 5);

/** The config of a model on inputs of a shape, whose loss is the sum of its outputs. */
function summed(model: (scope: RankScope) => unknown, shape: number[]): typeof MLP {
  const loss = (output: unknown): tf.Tensor =>
    tf.sum((Array.isArray(output) ? output[0] : output) as tf.Tensor);
  return { model, loss, data: () => ({ x: tf.zeros(shape) }) } as unknown as typeof MLP; // its types are those of the MLP
}

test('without shards, a model of its own needs 4 bytes per parameter for values and gradients, and 8 for AdamW', () => {
  const cases = [
    [MLP, MLP_PARAMS, 0],
    [summed(residual, [4, 3, 16, 16]), RESIDUAL_PARAMS, 4 * (8 + 8 + 1)],
  ] as const;
  for (const [config, params, buffers] of cases) {
    const counted = plan({ ...config, parallel: { strategy: 'NO_SHARD' } }, { on: 'A100-80G', gpus: 8 });
    const { memory } = counted.prediction;
    assert.equal(counted.layout.model.params, params);
    assert.equal(memory.params, 4 * params + buffers);
    assert.equal(memory.optimizer, 8 * params);
    const atUpdate = plan(
      { ...config, parallel: { strategy: 'NO_SHARD' }, optimizer: { kind: 'sgd' } },
      { on: 'A100-80G', gpus: 8 },
    );
    assert.equal(atUpdate.prediction.memory.optimizer, 0);
    const sharded = plan(config, { on: 'A100-80G', gpus: 8 }).prediction.memory;
    const shard = Math.ceil(params / 8);
    assert.ok(sharded.optimizer >= 8 * shard && sharded.optimizer < memory.optimizer);
  }
});

test("a counted plan's operations are those that torch counts for the same layers", () => {
  const cases: Readonly<Record<string, ReturnType<typeof summed>>> = {
    Linear: summed(
      ({ nn }) => new nn.Sequential(new nn.Linear(48, 96), new nn.ReLU(), new nn.Linear(96, 10)),
      [8, 48],
    ),
    Conv2d: summed(
      ({ nn }) =>
        new nn.Sequential(
          new nn.Conv2d(3, 8, 3, { stride: 2, padding: 1 }),
          new nn.ReLU(),
          new nn.Conv2d(8, 16, 3),
        ),
      [2, 3, 16, 16],
    ),
    LSTM: summed(({ nn }) => new nn.LSTM(12, 20, { numLayers: 2, batchFirst: true }), [4, 7, 12]),
    Residual: summed(residual, [4, 3, 16, 16]),
  };
  for (const [name, config] of Object.entries(cases)) {
    assert.equal(plan(config, { gpus: 2 }).prediction.time.modelFlopsPerGpu, FLOPS[name], name);
  }
});

test('the parts of a counted time add up to the step, on 1 GPU and on 512', () => {
  for (const gpus of [1, 8, 512]) {
    const { time } = plan(MLP, { on: 'A100-80G', gpus }).prediction;
    const compute = Object.values(time.computeByCause).reduce((sum, seconds) => sum + seconds, 0);
    assert.ok(Math.abs(compute - time.compute) < 1e-9 * time.seconds, `${gpus}: ${compute}, ${time.compute}`);
    assert.equal(time.exposedComm > 0, gpus > 1);
  }
});

const SIZES = { layers: 4, dim: 256, heads: 4, vocab: 1024, seq: 128, attention: 'flash' } as const;
const SHARED = { mixedPrecision: { paramDtype: 'bfloat16' }, parallel: { strategy: 'FULL_SHARD' } } as const;
const [BATCH, TOKENS] = [4, 4 * 128];
/** The built-in GPT as a model of one's own, on batches like those of the built-in data. */
const OWN_GPT = {
  ...SHARED,
  model: ({ nn }: RankScope) => nn.gpt(SIZES),
  data: () => ({ inputs: [tf.zeros([BATCH, SIZES.seq], 'int32'), tf.zeros([TOKENS], 'int32')] }),
};
const GPT = { ...SHARED, model: { kind: 'gpt', ...SIZES }, data: 'synthetic', batch: BATCH } as const;

test('the built-in GPT as a function has the bytes and the time of the built-in GPT in a dry run', () => {
  const own = plan(OWN_GPT as object, { on: 'A100-80G', gpus: 64 });
  const dry = dryRun(GPT, { world: 64, hardware: 'A100-80G' });
  const { logical } = dry.peak;
  const total = Object.values(logical).reduce((sum, bytes) => sum + bytes, 0);
  assert.equal(own.prediction.memory.peakBytes, total);
  assert.equal(own.prediction.memory.optimizer, logical.optimizer);
  assert.equal(own.seconds.value, dry.stepSeconds);
  assert.equal(own.prediction.time.exposedComm, dry.exposedSeconds);
  assert.equal(own.samplesPerSecond, (64 * BATCH) / dry.stepSeconds);
  assert.equal(own.tokensPerSecondPerGpu, TOKENS / dry.stepSeconds);
});

test('a counted plan says that it is counted, has no interval, and fills in tables, figures and costs', () => {
  const counted = plan(MLP, { on: 'A100-80G', gpus: 16 });
  assert.match(counted.toText(), /own schedule and kernels.*does not predict PyTorch/s);
  assert.match(counted.toText(), /no interval is known/);
  assert.match(
    counted.toText(),
    /16 x A100-80G, shardlab FULL_SHARD, dp 16, microbatch 256 x 1: .* HFU, .*: fits/,
  );
  assert.equal(counted.fits, true);
  assert.deepEqual(
    [counted.seconds.low, counted.seconds.high],
    [counted.seconds.value, counted.seconds.value],
  );
  for (const figure of [counted.memory(), counted.time()]) {
    assert.match(JSON.stringify(figure.toPlotly()), /Counted: this library/);
  }
  const { steps, usd } = counted.cost({ samples: 1e6 });
  assert.equal(steps, Math.ceil(1e6 / (256 * 16)));
  assert.ok(usd.value > 0);
  assert.throws(() => counted.cost({ tokens: 1e6 }), /batches of Sequential are not tokens.*\{ samples \}/);
});

test('counted plans compare with each other and over numbers of GPUs, and never with predictions', () => {
  const place = { on: 'A100-80G', gpus: 8 } as const;
  const ddp = { ...MLP, parallel: { strategy: 'NO_SHARD' } } as const;
  const plans = { DDP: plan(ddp, place), FSDP: plan(MLP, place) };
  assert.match(compare(plans, 'memory').title, /2 of 2 plans fit/);
  assert.match(compare(plans, 'time').subtitle ?? '', /counted/);
  assert.throws(
    () => compare({ own: plans.DDP, gpt: plan('gpt3-175b') }),
    /own.* counts .*gpt.* predicts .*cannot be compared/,
  );
  const [first, second] = plans.DDP.scaling({ counts: [8, 64] }).table.rows;
  assert.equal(first?.predicted, 100);
  assert.ok(Number(second?.predicted) < 100);
  assert.throws(
    () => compare(plans, 'scaling', { counts: [8], quantity: 'tokensPerSecond' }),
    /not tokens; give quantity 'efficiency'/,
  );
});

test('what has no meaning for a counted plan is refused by name', () => {
  const refused = [
    [{ stack: 'megatron' }, /stack has no meaning.*leave out stack/],
    [{ attention: 'flash' }, /attention has no meaning.*keys on, gpus/],
    [
      { parallel: { strategy: 'HYBRID_SHARD', mesh: { dpReplicate: 2, dpShard: 3 } }, gpus: 8 },
      /dpShard 3 does not divide 8 GPUs/,
    ],
  ] as const;
  for (const [place, message] of refused) assert.throws(() => plan(MLP, place), message);
  assert.equal(plan(MLP, { parallel: { strategy: 'HYBRID_SHARD' }, gpus: 16 }).layout.shards, 8);
  const formulas = /formulas only for models of known kinds.*sl\.compare/;
  assert.throws(() => plan(MLP, { gpus: 8 }).whatIf({ strategy: ['NO_SHARD'] }), formulas);
  assert.throws(() => recommend(MLP as object, { gpus: 8 }), formulas);
  assert.throws(() => plan({ model: { kind: 'own' }, data: 'function' }, { gpus: 8 }), formulas);
  assert.throws(
    () => plan({ model: MLP.model, loss: MLP.loss }),
    /data: 'typescript' is text.*needs a function/,
  );
});

test("a counted GPT's matmuls and attention take the planner's time, and its step takes 0.9 to 1.0 of the prediction", () => {
  const sizes = { layers: 8, dim: 2048, heads: 16, vocab: 50304, seq: 2048, attention: 'flash' } as const;
  const place = { on: 'A100-80G', gpus: 8 } as const;
  const own = {
    ...SHARED,
    model: ({ nn }: RankScope) => nn.gpt(sizes),
    data: () => ({ inputs: [tf.zeros([4, 2048], 'int32'), tf.zeros([4 * 2048], 'int32')] }),
  };
  const counted = plan(own as object, place);
  const built = { ...SHARED, model: { kind: 'gpt', ...sizes }, batch: 4 } as const;
  const predicted = plan(built, { ...place, stack: 'fsdp2' });
  for (const cause of ['products', 'attention'] as const) {
    const [here, there] = [counted, predicted].map(({ prediction }) => prediction.time.computeByCause[cause]);
    assert.ok(Math.abs(Number(here) / Number(there) - 1) < 1e-9, `${cause}: ${here}, ${there}`);
  }
  const ratio = counted.seconds.value / predicted.seconds.value;
  assert.ok(ratio > 0.9 && ratio < 1, `${ratio}`);
});
