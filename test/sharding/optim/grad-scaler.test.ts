import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { seeded } from '../../../src/core/random';
import * as tf from '../../../src/core/tf';
import type { Engine } from '../../../src/engine/backend/engine';
import { Parameter, type StateBuffer } from '../../../src/nn/parameter';
import { GradScaler, type GradScalerOptions } from '../../../src/sharding/optim/grad-scaler';
import type { ProcessGroup } from '../../../src/wire/dist/types';
import { soloGroup } from '../../support/solo-group';
import { testEngine } from '../../support/wasm-test-engine';

let engine: Engine;
before(async () => {
  engine = await testEngine();
});

const scalerOf = (options?: GradScalerOptions, group?: ProcessGroup): GradScaler =>
  new GradScaler(engine, group ?? soloGroup(engine), options);

/** A parameter with this gradient. */
function withGrad(values: readonly number[]): { readonly state: StateBuffer; readonly grad: tf.Tensor } {
  const parameter = new Parameter(tf.zeros([values.length]));
  const grad = tf.tensor1d([...values]);
  parameter.grad = grad;
  return { state: parameter.state, grad };
}

const optimizer = () => {
  const calls: (number | undefined)[] = [];
  return { calls, step: (gradScale?: number) => void calls.push(gradScale) };
};

test('gradients are unscaled to the bit, because the scale is a power of two', () => {
  const random = seeded(3, 'gradients');
  const values = Array.from({ length: 500 }, () =>
    Math.fround(random.normal() * 10 ** (-8 * random.uniform())),
  );
  const { state, grad } = withGrad(values.map((value) => value * 65536));
  const scaler = scalerOf();
  assert.equal(scaler.scale, 65536);
  assert.equal(scaler.unscaleAndCheck([state]), false);
  assert.deepEqual([...grad.dataSync()], values);
  const { calls, step } = optimizer();
  assert.equal(scaler.step({ step }, 0.25), true);
  assert.deepEqual(calls, [0.25]);
});

test('any infinite or NaN gradient skips the step, and the scale halves', () => {
  for (const bad of [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, Number.NaN]) {
    const scaler = scalerOf();
    const states = [withGrad([1, 2]).state, withGrad([1, 2, 3, 4, 5, bad, 7]).state];
    assert.equal(scaler.unscaleAndCheck(states), true);
    const { calls, step } = optimizer();
    assert.equal(scaler.step({ step }), false);
    scaler.update();
    assert.deepEqual([calls.length, scaler.scale, scaler.numSkipped], [0, 32768, 1]);
  }
});

test('a NaN or infinite gradient on another rank skips the step too', () => {
  const group: ProcessGroup = {
    ...soloGroup(engine),
    allReduce(tensor, op) {
      assert.equal(op, 'max');
      engine.fill(tensor, 1);
      return { done: true, wait: () => tensor };
    },
  };
  assert.equal(scalerOf({}, group).unscaleAndCheck([withGrad([1]).state]), true);
});

test('the scale grows after growthInterval good steps in a row', () => {
  const scaler = scalerOf({ initScale: 8, growthInterval: 3 });
  const scales = [1, 1, Number.NaN, 1, 1, 1, 1].map((value) => {
    scaler.unscaleAndCheck([withGrad([value]).state]);
    scaler.update();
    return scaler.scale;
  });
  assert.deepEqual(scales, [8, 8, 4, 4, 4, 8, 8]);
  const next = scalerOf({ growthInterval: 3 });
  next.restore(scaler.state);
  assert.deepEqual(next.state, { scale: 8, growthTracker: 1 });
});

test('the scale does not grow beyond float32', () => {
  const scaler = scalerOf({ initScale: 2 ** 127, growthInterval: 1 });
  scaler.update();
  assert.equal(scaler.scale, 2 ** 127);
});

test('a scaler that is not enabled changes nothing', () => {
  const { state, grad } = withGrad([Number.NaN, 3]);
  const scaler = scalerOf({ enabled: false });
  assert.equal(scaler.scale, 1);
  assert.equal(scaler.unscaleAndCheck([state]), false);
  scaler.update();
  assert.deepEqual([...grad.dataSync()], [Number.NaN, 3]);
  assert.equal(scaler.scale, 1);
});

test('gradients must be unscaled exactly once per step, before the update', () => {
  const scaler = scalerOf();
  assert.throws(() => scaler.step(optimizer()), /still scaled; call unscaleAndCheck/);
  scaler.unscaleAndCheck([]);
  assert.throws(() => scaler.unscaleAndCheck([]), /already unscaled in this step/);
  scaler.update();
  scaler.unscaleAndCheck([]);
});
