import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { SILENT } from '../../src/core/events';
import * as tf from '../../src/core/tf';
import { gradients } from '../../src/engine/autograd/unit';
import { currentDraws } from '../../src/engine/backend/current-engine';
import type { Engine } from '../../src/engine/backend/engine';
import { withMetaEngine } from '../../src/engine/backend/meta-engine';
import { Buffer } from '../../src/nn/buffer';
import { Sequential } from '../../src/nn/containers';
import { Linear } from '../../src/nn/linear';
import { Module } from '../../src/nn/module';
import { checkpointed } from '../../src/sharding/recompute/checkpointed';
import { testEngine } from '../support/wasm-test-engine';

/** A layer with a running mean, a count, a constant that is not stored, and random noise. */
class Noisy extends Module {
  readonly fc = new Linear(2, 2);
  readonly mean = new Buffer(tf.zeros([2]));
  readonly calls = this.registerBuffer('num_calls', tf.zeros([1], 'int32'));
  readonly mask = new Buffer(tf.ones([2], 'bool'), { persistent: false });
  readonly drawn: number[] = [];

  forward(x: tf.Tensor): tf.Tensor {
    if (!this.training) return tf.sub(x, this.mean.tensor);
    this.mean.update((mean) => tf.add(tf.mul(mean, 0.5), tf.mul(tf.mean(x, 0), 0.5)));
    this.calls.update((calls) => tf.add(calls, tf.scalar(1, 'int32')));
    const noise = this.random().uniform();
    this.drawn.push(noise);
    return tf.mul(this.fc.apply(x), noise);
  }
}

let engine: Engine;
before(async () => {
  engine = await testEngine();
});

test('buffers have names, are no parameters, and only persistent ones are in the state', () => {
  const model = new Sequential([new Noisy()]);
  assert.deepEqual([...model.namedBuffers().keys()], ['0.mean', '0.num_calls', '0.mask']);
  assert.deepEqual([...model.namedParameters().keys()], ['0.fc.weight', '0.fc.bias']);
  assert.deepEqual([...model.namedState().keys()], ['0.mean', '0.num_calls', '0.fc.weight', '0.fc.bias']);
  assert.equal(model.numParams(), 6);
  assert.deepEqual(
    model.buffers().map(({ tensor }) => engine.tagOf(tensor)),
    ['0', '0', '0'].map((module) => ({ cause: 'buffer', module })),
  );
  model.dispose();
});

test('a buffer that is wrong is an error that says what to write', () => {
  const model = new Noisy();
  assert.throws(() => new Buffer(tf.ones([2], 'bool')), /cannot store bool \[2\].*persistent: false/);
  assert.throws(() => model.registerBuffer('mean', tf.zeros([2])), /Noisy\.mean exists; use another name/);
  assert.throws(() => model.registerBuffer('path', tf.zeros([2])), /Noisy\.path exists/);
  assert.throws(
    () => Object.assign(model, { mean: tf.zeros([2]) }),
    /is a buffer.*this\.mean\.assign\(tensor\)/,
  );
  assert.throws(() => model.mean.assign(tf.zeros([3])), /buffer mean is float32 \[2\], but .* float32 \[3\]/);
  assert.throws(() => model.calls.update((calls) => tf.mul(calls, 0.5)), /num_calls is int32 .* float32/);
  model.dispose();
});

test('train and eval set all modules inside; evaluation uses the running mean', () => {
  const layer = new Noisy();
  const model = new Sequential([layer]);
  assert.ok(model.training && layer.fc.training);
  assert.equal(model.eval(), model);
  assert.ok(!layer.training && !layer.fc.training);
  layer.mean.assign(tf.tensor1d([1, 2]));
  const y = tf.tidy(() => model.apply(tf.tensor2d([[3, 3]])));
  assert.deepEqual([...y.dataSync()], [2, 1]);
  model.train();
  assert.ok(layer.fc.training);
  model.dispose();
});

test('a buffer changes once per pass and numbers are drawn again equally when forward runs again', () => {
  const layer = checkpointed({ engine, observer: SILENT }, new Noisy());
  const model = new Sequential([layer, layer]).manualSeed(5);
  const x = tf.tensor2d([
    [2, 4],
    [4, 8],
  ]);
  for (let step = 0; step < 2; step++) {
    const { numTensors } = tf.memory();
    const pass = gradients(engine, () => tf.mean(model.apply(x)));
    const drawn = [...layer.drawn];
    layer.drawn.length = 0;
    assert.equal(new Set(drawn).size, 2, 'both calls draw numbers of their own');
    pass.backward();
    assert.deepEqual(layer.drawn.splice(0), drawn.toReversed());
    pass.loss.dispose();
    model.zeroGrad();
    if (step > 0) assert.equal(tf.memory().numTensors, numTensors);
  }
  assert.deepEqual([...layer.calls.tensor.dataSync()], [4]);
  x.dispose();
  model.dispose();
});

test('drawn numbers depend on seed, name, rank and pass, and not on other layers', () => {
  const numbers = (seed: number, name: string, rank: number, passes: number): number => {
    const inner = new Noisy();
    const model = new Sequential([inner]).manualSeed(seed);
    if (name !== '0') Object.assign(model, { [name]: inner });
    Object.assign(currentDraws(), { rank, pass: 0, next: 0 });
    for (let pass = 0; pass < passes; pass++) {
      gradients(engine, () => tf.mean(model.apply(tf.ones([1, 2])))).dispose();
    }
    model.dispose();
    currentDraws().rank = 0;
    return inner.drawn.at(-1) ?? Number.NaN;
  };
  assert.equal(numbers(1, '0', 0, 1), numbers(1, '0', 0, 1));
  const others = [numbers(1, '0', 0, 1), numbers(2, '0', 0, 1), numbers(1, '0', 1, 1), numbers(1, '0', 0, 2)];
  assert.equal(new Set(others).size, others.length);
});

test('no gradient flows into a buffer, and its update leaves no tensors', () => {
  const layer = new Noisy();
  const x = tf.ones([1, 2]);
  tf.tidy(() => void layer.apply(x));
  const { numTensors } = tf.memory();
  const pass = gradients(engine, () => tf.sum(tf.add(layer.apply(x), layer.mean.tensor)));
  pass.backward();
  assert.equal(layer.mean.grad, null);
  pass.loss.dispose();
  layer.zeroGrad();
  assert.equal(tf.memory().numTensors, numTensors);
  layer.dispose();
});

test('a rounded buffer stays rounded after updates, and its tag says so', () => {
  const layer = new Noisy();
  layer.mean.roundTo('bfloat16');
  layer.mean.roundTo('float16');
  const given = tf.tensor1d([1 / 3, 1]);
  layer.mean.assign(given);
  assert.deepEqual([...layer.mean.tensor.dataSync()], [0.333984375, 1]);
  assert.deepEqual([...given.dataSync()], [Math.fround(1 / 3), 1]);
  assert.equal(engine.tagOf(layer.mean.tensor).declared, 'bfloat16');
  layer.calls.roundTo('bfloat16');
  assert.equal(layer.calls.tensor.dtype, 'int32');
  layer.dispose();
});

test('a dry run counts buffers and draws without values', () => {
  withMetaEngine({}, (meta) => {
    const layer = new Noisy();
    const pass = gradients(meta, () => tf.mean(layer.apply(tf.ones([4, 2]))));
    pass.backward();
    assert.equal(meta.tagOf(layer.mean.tensor).cause, 'buffer');
    assert.equal(layer.drawn.length, 1);
  });
});
