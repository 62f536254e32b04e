import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { SILENT } from '../../src/core/events';
import * as tf from '../../src/core/tf';
import { gradients } from '../../src/engine/autograd/unit';
import { currentDraws } from '../../src/engine/backend/current-engine';
import type { Engine } from '../../src/engine/backend/engine';
import { Sequential } from '../../src/nn/containers';
import { Dropout, Dropout2d } from '../../src/nn/layers/dropout';
import { LSTM } from '../../src/nn/layers/recurrent';
import { Linear } from '../../src/nn/linear';
import { Parameter } from '../../src/nn/parameter';
import { checkpointed } from '../../src/sharding/recompute/checkpointed';
import { testEngine } from '../support/wasm-test-engine';

let engine: Engine;
before(async () => {
  engine = await testEngine();
});

const ones = (...shape: number[]): tf.Tensor => tf.ones(shape);

test('dropout drops the part p of the elements and enlarges the others, in training only', () => {
  const layer = new Dropout(0.25);
  const values = layer.apply(ones(100, 100)).dataSync();
  const dropped = values.filter((value) => value === 0).length;
  assert.ok(Math.abs(dropped - 2500) < 150, `${dropped} of 10,000 elements`);
  assert.ok(values.every((value) => value === 0 || Math.abs(value - 4 / 3) < 1e-6));
  const x = ones(3, 3);
  assert.equal(layer.eval().apply(x), x);
  assert.equal(new Dropout(0).apply(x), x);
  assert.deepEqual([...new Dropout(1).apply(x).dataSync()], Array(9).fill(0));
  assert.throws(() => new Dropout(1.5), /p is 1.5; give a probability from 0 to 1/);
});

test('the gradient drops the same elements', () => {
  for (const layer of [new Dropout(0.3), new Dropout2d(0.6)]) {
    const x = new Parameter(tf.randomNormal([5, 7, 3, 3]));
    let y = tf.scalar(0) as tf.Tensor;
    gradients(engine, () => {
      y = tf.keep(layer.apply(x.tensor));
      return tf.sum(y);
    }).backward();
    const [from, to] = [x.tensor.dataSync(), y.dataSync()];
    x.grad?.dataSync().forEach((slope, i) => {
      assert.ok(Math.abs((from[i] ?? 0) * slope - (to[i] ?? 0)) < 1e-6);
    });
  }
});

test('Dropout2d drops whole channels', () => {
  const values = new Dropout2d(0.5).apply(ones(8, 8, 2, 2)).dataSync();
  for (let plane = 0; plane < 64; plane++) {
    const own = values.slice(4 * plane, 4 * plane + 4);
    assert.ok(own.every((value) => value === own[0]));
  }
  assert.ok(values.includes(0) && values.includes(2));
});

test('layers, calls, steps and ranks drop other elements', () => {
  const model = new Sequential([new Dropout(), new Dropout()]);
  const [first, second] = [...model.children.values()] as [Dropout, Dropout];
  const draw = (layer: Dropout): string => layer.apply(ones(40)).dataSync().join();
  const drawn: string[] = [];
  for (const rank of [0, 1]) {
    currentDraws().rank = rank;
    for (let step = 0; step < 2; step++) {
      gradients(engine, () => {
        drawn.push(draw(first), draw(first), draw(second));
        return tf.scalar(0);
      });
    }
  }
  currentDraws().rank = 0;
  assert.equal(new Set(drawn).size, drawn.length);
});

test('a checkpointed dropout drops the same elements in both forwards', () => {
  const gradientOf = (isCheckpointed: boolean): Float32Array => {
    Object.assign(currentDraws(), { pass: 5, next: 0 });
    const layer = new Sequential([new Dropout(0.5), new Linear(6, 6)]).manualSeed(3);
    if (isCheckpointed) checkpointed({ engine, observer: SILENT }, layer, {});
    const x = new Parameter(ones(4, 6));
    gradients(engine, () => tf.sum(tf.square(layer.apply(x.tensor)))).backward();
    return x.grad?.dataSync() as Float32Array;
  };
  assert.deepEqual(gradientOf(true), gradientOf(false));
});

test('dropout of an LSTM is between its layers', () => {
  const outputOf = (layers: number, x: tf.Tensor): string => {
    const lstm = new LSTM(2, 3, { numLayers: layers, dropout: 1 });
    return lstm.apply(x)[0].dataSync().join();
  };
  assert.equal(outputOf(2, ones(3, 1, 2)), outputOf(2, tf.zeros([3, 1, 2])));
  assert.notEqual(outputOf(1, ones(3, 1, 2)), outputOf(1, tf.zeros([3, 1, 2])));
});
