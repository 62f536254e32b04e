import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import * as tf from '../../src/core/tf';
import { gumbelSoftmax } from '../../src/nn/layers/activation-functions';
import { assertClose } from '../support/close';
import { testEngine } from '../support/wasm-test-engine';

before(async () => {
  await testEngine();
});

test('hard samples are one-hot, and each class comes as often as its probability says', () => {
  tf.tidy(() => {
    const rows = 20_000;
    const logits = tf.tile(tf.tensor2d([[0, 1, 2]]), [rows, 1]);
    const samples = gumbelSoftmax(logits, { hard: true, seed: 3 });
    assert.deepEqual(tf.sum(samples, 1).arraySync(), Array<number>(rows).fill(1));
    const shares = tf.mean(samples, 0).dataSync();
    assertClose(shares, tf.softmax(tf.tensor1d([0, 1, 2])).dataSync(), 0.02);
  });
});

test('the gradient of hard samples is that of soft samples with the same seed', () => {
  tf.tidy(() => {
    const logits = tf.tensor2d([[0.3, -1, 2]]);
    const weights = tf.tensor2d([[1, 2, 4]]);
    const gradientOf = (hard: boolean): tf.Tensor =>
      tf.grad((x) => tf.sum(tf.mul(gumbelSoftmax(x, { hard, tau: 0.5, seed: 5 }), weights)))(logits);
    assertClose(gradientOf(true).dataSync(), gradientOf(false).dataSync(), 1e-6);
  });
});

test('a low temperature makes soft samples almost one-hot, along any dim', () => {
  tf.tidy(() => {
    const samples = gumbelSoftmax(tf.zeros([3, 4]), { tau: 1e-3, dim: 0, seed: 7 });
    assertClose(tf.sum(samples, 0).dataSync(), [1, 1, 1, 1], 1e-6);
    assertClose(tf.max(samples, 0).dataSync(), [1, 1, 1, 1], 1e-3);
  });
});
