import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import type { HalfDType } from '../../../src/core/dtypes';
import { SILENT } from '../../../src/core/events';
import { HALF_FORMATS, roundValues } from '../../../src/core/rounding';
import * as tf from '../../../src/core/tf';
import { gradients } from '../../../src/engine/autograd/unit';
import type { Engine } from '../../../src/engine/backend/engine';
import { byCause, logicalByCause } from '../../../src/ledger/memory';
import { Recorder } from '../../../src/ledger/recorder';
import { Linear } from '../../../src/nn/linear';
import { gpt } from '../../../src/nn/models/gpt';
import { Module } from '../../../src/nn/module';
import { DDP } from '../../../src/sharding/ddp/distributed-data-parallel';
import { rounded } from '../../../src/sharding/precision/cast-boundaries';
import { type MixedPrecision, mixedPrecision } from '../../../src/sharding/precision/mixed-precision';
import { soloGroup } from '../../support/solo-group';
import { testEngine } from '../../support/wasm-test-engine';

let engine: Engine;
before(async () => {
  engine = await testEngine();
});

const HALVES = ['bfloat16', 'float16'] as const;

function roundedBy(values: ArrayLike<number>, half: HalfDType): number[] {
  const copy = Float32Array.from(values);
  roundValues(copy, half);
  return [...copy];
}

for (const half of HALVES) {
  test(`a value that is cast to ${half} is rounded, and so is its gradient`, () => {
    const xs = [1 / 3, -2 / 3, 1e-3, 5];
    const dys = [1 / 7, -3 / 7, 1e-4, 9 / 7];
    const before = engine.memory.bytes;
    const x = tf.tensor1d(xs);
    const dy = tf.tensor1d(dys);
    const { value, grad } = tf.valueAndGrad((input) => rounded(engine, input, half))(x, dy);
    assert.deepEqual([...value.dataSync()], roundedBy(xs, half));
    assert.deepEqual([...grad.dataSync()], roundedBy(dys, half));
    assert.deepEqual([...x.dataSync()], [...Float32Array.from(xs)]);
    tf.dispose([x, dy, value, grad]);
    assert.equal(engine.memory.bytes, before);
  });
}

test('int32 ids are not cast', () => {
  const ids = tf.tensor1d([70_001, 3], 'int32');
  assert.equal(rounded(engine, ids, 'bfloat16'), ids);
  ids.dispose();
});

/** One linear layer whose loss is the sum of its outputs, each with a factor. */
class Weighted extends Module {
  readonly layer = new Linear(4, 3);
  readonly #factors: tf.Tensor;

  constructor(factors: tf.Tensor) {
    super();
    this.manualSeed(3);
    this.#factors = factors;
  }

  forward(x: tf.Tensor): tf.Tensor {
    return tf.sum(tf.mul(this.layer.apply(x), this.#factors));
  }
}

for (const half of HALVES) {
  test(`under DDP with ${half} a pass computes with rounded parameters and inputs, and parameters do not change`, () => {
    const factors = tf.tensor2d([[1.1, -0.7, 0.3]]);
    const model = new Weighted(factors);
    const [weight, bias] = model.parameters();
    assert.ok(weight !== undefined && bias !== undefined);
    const masters = [weight, bias].map(({ tensor }) => tensor);
    const values = masters.map((tensor) => tensor.dataSync<'float32'>().slice());
    const x = tf.tensor2d([[0.123, -4.567, 8.9, 1e-3]]);
    new DDP(
      model,
      { engine, observer: SILENT, group: soloGroup(engine) },
      { precision: mixedPrecision({ paramDtype: half }) },
    );
    const before = engine.memory.bytes;
    const pass = gradients(engine, () => model.apply(x));
    pass.backward();

    const [w = [], b = []] = values.map((each) => roundedBy(each, half));
    const xs = roundedBy(x.dataSync(), half);
    const fs = Array.from(factors.dataSync());
    const ys = b.map((bi, i) => bi + xs.reduce((sum, xj, j) => sum + (w[4 * i + j] ?? 0) * xj, 0));
    const exact = ys.reduce((sum, y, i) => sum + y * (fs[i] ?? 0), 0);
    assert.ok(Math.abs((pass.loss.dataSync()[0] ?? 0) - exact) < 1e-5, 'the loss is that of rounded values');
    // One matmul in float32, rounded once at the end.
    const product = fs.flatMap((f) => xs.map((xj) => Math.fround(f * xj)));
    assert.deepEqual([...(weight.grad?.dataSync() ?? [])], roundedBy(product, half));
    assert.deepEqual([...(bias.grad?.dataSync() ?? [])], roundedBy(fs, half));
    assert.deepEqual([weight.tensor, bias.tensor], masters);
    assert.deepEqual(
      [weight, bias].map(({ tensor }) => tensor.dataSync<'float32'>().slice()),
      values,
    );
    pass.loss.dispose();
    model.zeroGrad();
    assert.equal(engine.memory.bytes, before);
    tf.dispose([x, factors]);
    model.dispose();
  });

  /**
   * y = Σ w_j x_j + b with each of w, x, b rounded once: relative errors of at most u each, so the error of each term is at
   * most (2u + u²)|w_j x_j| and the bias by u|b|. Sums in float32 add (n + 1) · 2^-24 of the sum of sizes.
   */
  test(`a linear layer under ${half} is within the bound of its unit roundoff`, () => {
    const { unitRoundoff: u } = HALF_FORMATS[half];
    const ones = tf.ones([1, 3]);
    const plain = new Weighted(ones);
    const low = new Weighted(ones);
    new DDP(
      low,
      { engine, observer: SILENT, group: soloGroup(engine) },
      { precision: mixedPrecision({ paramDtype: half }) },
    );
    const x = tf.randomNormal([1, 4], 0, 1, 'float32', 9);
    const [expected, actual] = [plain, low].map((model) => {
      const y = tf.tidy(() => model.apply(x)).dataSync()[0];
      return y ?? Number.NaN;
    });
    const [w, b] = plain.parameters().map(({ tensor }) => tensor.dataSync());
    const xs = x.dataSync();
    const sizes = Array.from(w ?? []).reduce((sum, value, i) => sum + Math.abs(value * (xs[i % 4] ?? 0)), 0);
    const biases = Array.from(b ?? []).reduce((sum, value) => sum + Math.abs(value), 0);
    const bound = (2 * u + u * u) * sizes + u * biases + 16 * 2 ** -24 * (sizes + biases);
    const error = Math.abs((actual ?? 0) - (expected ?? 0));
    assert.ok(error <= bound, `${error} is above ${bound}`);
    assert.ok(error > bound / 1000, 'values were rounded');
    tf.dispose([x, ones]);
    for (const model of [plain, low]) model.dispose();
  });
}

test('saved activations of a unit count at the declared type, except integers and float32 units', () => {
  const activations = (precision: MixedPrecision): { bytes: number; logicalBytes: number } => {
    const model = gpt({ layers: 1, dim: 8, heads: 2, vocab: 16, seq: 4 });
    new DDP(model, { engine, observer: SILENT, group: soloGroup(engine) }, { precision });
    const recorder = new Recorder({ rank: 0, world: 1 });
    engine.observe(recorder);
    recorder.beginStep(1);
    const [ids, targets] = [tf.zeros([1, 4], 'int32'), tf.zeros([4], 'int32')];
    const pass = gradients(engine, () => model.apply(ids, targets));
    const { owners, atRest } = recorder.endStep({ engineBytes: engine.memory.bytes }).memory;
    tf.dispose([ids, targets, pass.loss]);
    pass.dispose();
    model.dispose();
    return {
      bytes: byCause(owners, atRest).activation,
      logicalBytes: logicalByCause(owners, atRest).activation,
    };
  };
  const wide = activations(mixedPrecision({}));
  assert.equal(wide.logicalBytes, wide.bytes);
  const narrow = activations(mixedPrecision({ paramDtype: 'bfloat16' }));
  // Indices of an embedding are saved as integers.
  const whole = 2 * narrow.logicalBytes - narrow.bytes;
  assert.ok(whole >= 0 && whole <= 64, `${whole} bytes are not float32`);
  assert.ok(narrow.bytes > 1000);
});

test('a forward that fails leaves the float32 parameters in the model', () => {
  const factors = tf.tensor2d([[1, 1, 1]]);
  const model = new Weighted(factors);
  const masters = model.parameters().map(({ tensor }) => tensor);
  const ddp = new DDP(
    model,
    { engine, observer: SILENT, group: soloGroup(engine) },
    {
      precision: mixedPrecision({ paramDtype: 'bfloat16' }),
    },
  );
  const wrong = tf.ones([1, 5]);
  assert.throws(() => tf.tidy(() => model.apply(wrong)), /linear/);
  ddp.abandon();
  assert.deepEqual(
    model.parameters().map(({ tensor }) => tensor),
    masters,
  );
  tf.dispose([wrong, factors]);
  model.dispose();
});
