import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import * as tf from '../../../src/core/tf';
import { causalSoftmax, layerNorm, softmaxCrossEntropy } from '../../../src/engine/backend/ops';
import { testEngine } from '../../support/wasm-test-engine';

const LENGTH = 2 ** 20 + 3;
/** Plain sums of a million elements in four lanes of float32 are off by 5e-6 (softmax) and 3e-5 (layerNorm). */
const BOUND = 2e-6;

before(async () => {
  await testEngine();
});

function wavesOf(length: number): Float32Array {
  return Float32Array.from({ length }, (_, i) => Math.sin(i * 0.37) + 0.5 * Math.cos(i * 1.9));
}

function sumOf(values: Float32Array, of: (value: number) => number): number {
  return values.reduce((sum, value) => sum + of(value), 0);
}

test('cross-entropy and its gradient over a million classes are as exact as over a few', () => {
  const values = wavesOf(LENGTH);
  const norm = Math.log(sumOf(values, Math.exp));
  tf.tidy(() => {
    const logits = tf.tensor2d(values, [1, LENGTH]);
    const labels = tf.tensor1d([5], 'int32');
    const { value, grad } = tf.valueAndGrad((x: tf.Tensor) => softmaxCrossEntropy(x, labels))(logits);
    const expected = norm - (values[5] ?? 0);
    assert.ok(
      Math.abs((value.dataSync()[0] ?? 0) - expected) < BOUND,
      `${value.dataSync()[0]}, not ${expected}`,
    );
    const gradient = grad.dataSync();
    for (const i of [0, 1000, LENGTH - 1]) {
      const part = Math.exp((values[i] ?? 0) - norm);
      assert.ok(Math.abs((gradient[i] ?? 0) / part - 1) < BOUND, `class ${i}: ${gradient[i]}, not ${part}`);
    }
  });
});

test('a softmax and its gradient over a million columns are as exact as over a few', () => {
  const values = wavesOf(LENGTH);
  const norm = sumOf(values, Math.exp);
  tf.tidy(() => {
    const softmax = (x: tf.Tensor): tf.Tensor => causalSoftmax(x);
    const scores = tf.tensor3d(values, [1, 1, LENGTH]);
    const found = softmax(scores).dataSync();
    const gradient = tf
      .grad((x: tf.Tensor) => softmax(x).mul(x).sum())(scores)
      .dataSync();
    const mean = sumOf(values, (value) => (Math.exp(value) / norm) * value);
    for (const i of [0, 1000, LENGTH - 1]) {
      const x = values[i] ?? 0;
      const p = Math.exp(x) / norm;
      assert.ok(Math.abs((found[i] ?? 0) / p - 1) < BOUND, `column ${i}: ${found[i]}, not ${p}`);
      const slope = p * (1 + x - mean);
      assert.ok(
        Math.abs((gradient[i] ?? 0) - slope) < BOUND * p,
        `gradient ${i}: ${gradient[i]}, not ${slope}`,
      );
    }
  });
});

test('layerNorm and its gradient over a million elements are as exact as over a few', () => {
  const values = wavesOf(LENGTH).map((value) => value + 3);
  const mean = sumOf(values, (value) => value) / LENGTH;
  const deviation = Math.sqrt(sumOf(values, (value) => (value - mean) ** 2) / LENGTH);
  tf.tidy(() => {
    const x = tf.tensor2d(values, [1, LENGTH]);
    const [ones, zeros] = [tf.ones([LENGTH]), tf.zeros([LENGTH])];
    const weights = Float32Array.from(values, (value) => value ** 2);
    const found = layerNorm(x, ones, zeros, 0).dataSync();
    const gradient = tf.grad((one: tf.Tensor) =>
      layerNorm(one, ones, zeros, 0)
        .mul(tf.tensor2d(weights, [1, LENGTH]))
        .sum(),
    )(x);
    const slopes = gradient.dataSync();
    const unitOf = (value: number): number => (value - mean) / deviation;
    const plain = sumOf(values, (value) => Math.fround(value ** 2)) / LENGTH;
    const weighted = sumOf(values, (value) => Math.fround(value ** 2) * unitOf(value)) / LENGTH;
    for (const i of [0, 1000, LENGTH - 1]) {
      const unit = unitOf(values[i] ?? 0);
      assert.ok(Math.abs((found[i] ?? 0) - unit) < BOUND, `element ${i}: ${found[i]}, not ${unit}`);
      const slope = ((weights[i] ?? 0) - plain - unit * weighted) / deviation;
      assert.ok(Math.abs((slopes[i] ?? 0) - slope) < 10 * BOUND, `gradient ${i}: ${slopes[i]}, not ${slope}`);
    }
  });
});

test("layerNorm's weight and bias gradients over forty thousand rows are as exact as over a few", () => {
  const [rows, width] = [40_000, 11];
  const values = wavesOf(rows * width);
  const dy = wavesOf(rows * width).map((value) => value + 3);
  tf.tidy(() => {
    const x = tf.tensor2d(values, [rows, width]);
    const loss = (weight: tf.Tensor, bias: tf.Tensor): tf.Tensor =>
      layerNorm(x, weight as tf.Tensor1D, bias as tf.Tensor1D, 0)
        .mul(tf.tensor2d(dy, [rows, width]))
        .sum();
    const [weightGrad, biasGrad] = tf.grads(loss)([tf.ones([width]), tf.zeros([width])]);
    const [weights, biases] = [weightGrad?.dataSync() ?? [], biasGrad?.dataSync() ?? []];
    const [unitSums, sums] = columnSums(values, dy, width);
    for (let j = 0; j < width; j++) {
      const [unitSum, sum] = [unitSums[j] ?? 0, sums[j] ?? 0];
      assert.ok(Math.abs((biases[j] ?? 0) / sum - 1) < 3e-7, `bias ${j}: ${biases[j]}, not ${sum}`);
      assert.ok(
        Math.abs((weights[j] ?? 0) - unitSum) < 3e-7 * sum,
        `weight ${j}: ${weights[j]}, not ${unitSum}`,
      );
    }
  });
});

/** Returns the sums over rows of dy times the row's normalized values, and the sums of dy. */
function columnSums(values: Float32Array, dy: Float32Array, width: number): [Float64Array, Float64Array] {
  const [unitSums, sums] = [new Float64Array(width), new Float64Array(width)];
  for (let from = 0; from < values.length; from += width) {
    const row = values.subarray(from, from + width);
    const mean = sumOf(row, (value) => value) / width;
    const deviation = Math.sqrt(sumOf(row, (value) => (value - mean) ** 2) / width);
    for (let j = 0; j < width; j++) {
      const d = dy[from + j] ?? 0;
      unitSums[j] = (unitSums[j] ?? 0) + (d * ((row[j] ?? 0) - mean)) / deviation;
      sums[j] = (sums[j] ?? 0) + d;
    }
  }
  return [unitSums, sums];
}
