import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { ShardlabError } from '../../src/core/errors';
import * as tf from '../../src/core/tf';
import { type AttentionOptions, attention } from '../../src/nn/attention';
import { assertClose, normals, valuesOf } from '../support/close';
import { testEngine } from '../support/wasm-test-engine';

const [B, T, S, H, G, D] = [2, 3, 5, 4, 2, 6];

before(async () => {
  await testEngine();
});

const random = (shape: readonly number[], label: string): tf.Tensor =>
  tf.tensor(
    normals(
      shape.reduce((product, extent) => product * extent, 1),
      label,
    ),
    [...shape],
  );

/** Head by head, with keys and values repeated. */
function headByHead(q: tf.Tensor, k: tf.Tensor, v: tf.Tensor, options: AttentionOptions): tf.Tensor {
  const [, rows = 0, heads = 0, width = 1] = q.shape;
  const [, columns = 0, groups = 1] = k.shape;
  const hidden = tf.tensor2d(
    Array.from({ length: rows }, (_, i) =>
      Array.from({ length: columns }, (_, j) => (options.causal && j > i + columns - rows ? -1e9 : 0)),
    ),
  );
  const of = (x: tf.Tensor, head: number): tf.Tensor =>
    tf.squeeze(tf.slice(x, [0, 0, head, 0], [-1, -1, 1, -1]), [2]);
  const outputs = Array.from({ length: heads }, (_, head) => {
    const group = Math.floor((head * groups) / heads);
    let scores = tf.mul(
      tf.matMul(of(q, head), of(k, group), false, true),
      options.scale ?? 1 / Math.sqrt(width),
    );
    if (options.bias !== undefined) scores = tf.add(scores, tf.gather(options.bias, head));
    return tf.matMul(tf.softmax(tf.add(scores, hidden)), of(v, group));
  });
  return tf.stack(outputs, 2);
}

for (const [name, options] of Object.entries<AttentionOptions>({
  causal: { causal: true },
  'of all keys': { causal: false },
  'of another scale': { causal: false, scale: 1 },
  'causal, in blocks': { causal: true, kind: 'flash' },
  'of all keys and another scale, in blocks': { causal: false, scale: 1, kind: 'flash' },
})) {
  test(`attention ${name} with grouped heads equals attention head by head, in value and gradients`, () => {
    tf.tidy(() => {
      const inputs = [random([B, T, H, D], 'q'), random([B, S, G, D], 'k'), random([B, S, G, D], 'v')];
      const weights = random([B, T, H, D], 'dy');
      const lossOf =
        (attend: typeof headByHead) =>
        (...tensors: tf.Tensor[]): tf.Tensor => {
          const [q, k, v] = tensors as [tf.Tensor, tf.Tensor, tf.Tensor]; // three are given
          return tf.sum(tf.mul(attend(q, k, v, options), weights));
        };
      const [found, expected] = [lossOf(attention), lossOf(headByHead)].map((loss) =>
        tf.valueAndGrads(loss)(inputs),
      );
      assertClose(
        valuesOf(found?.value ?? tf.zeros([1])),
        valuesOf(expected?.value ?? tf.zeros([1])),
        1e-5,
        'value',
      );
      for (const i of [0, 1, 2]) {
        assertClose(
          valuesOf(found?.grads[i] ?? tf.zeros([1])),
          valuesOf(expected?.grads[i] ?? tf.ones([1])),
          1e-5,
        );
      }
    });
  });
}

test('a bias is added to the scaled scores and has a gradient', () => {
  tf.tidy(() => {
    const [q, k, v] = [random([B, T, H, D], 'q'), random([B, S, G, D], 'k'), random([B, S, G, D], 'v')];
    const bias = random([H, T, S], 'bias');
    const weights = random([B, T, H, D], 'dy');
    const grads = [attention, headByHead].map((attend) =>
      valuesOf(
        tf.grad((given) => tf.sum(tf.mul(attend(q, k, v, { causal: false, bias: given }), weights)))(bias),
      ),
    );
    assertClose(grads[0] ?? [], grads[1] ?? [1], 1e-5);
  });
});

test('the error of tensors that do not fit shows their shapes', () => {
  tf.tidy(() => {
    const q = random([B, T, H, D], 'q');
    const k = random([B, S, 3, D], 'k');
    assert.throws(
      () => attention(q, k, k, { causal: false }),
      (error) =>
        error instanceof ShardlabError &&
        error.code === 'SHAPE' &&
        error.message.includes('q [2,3,4,6], k [2,5,3,6]'),
    );
  });
});
