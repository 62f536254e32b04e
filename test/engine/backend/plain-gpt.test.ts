import { before, describe, test } from 'node:test';
import * as tf from '../../../src/core/tf';
import {
  plainCausalAttention,
  plainCrossEntropy,
  plainEmbedding,
  plainGelu,
  plainLayerNorm,
  plainLinear,
} from '../../../src/engine/backend/plain-ops';
import { assertClose, normals } from '../../support/close';
import { onBothBackends } from '../../support/cpu-reference';
import { ENGINE_CASES } from '../../support/engines';

const [BATCH, SEQ, DIM, HEADS, VOCAB] = [2, 6, 12, 3, 17];
const SHAPES = [
  [VOCAB, DIM],
  [SEQ, DIM],
  [DIM],
  [DIM],
  [3 * DIM, DIM],
  [3 * DIM],
  [DIM, DIM],
  [DIM],
  [DIM],
  [DIM],
  [4 * DIM, DIM],
  [4 * DIM],
  [DIM, 4 * DIM],
  [DIM],
];

/** One block, tied head, of tfjs's own operations only. */
function loss(...parameters: tf.Tensor[]): tf.Tensor {
  const [wte, wpe, g1, b1, qkvW, qkvB, projW, projB, g2, b2, fc1W, fc1B, fc2W, fc2B] = parameters as [
    tf.Tensor,
    tf.Tensor,
    tf.Tensor,
    tf.Tensor,
    tf.Tensor,
    tf.Tensor,
    tf.Tensor,
    tf.Tensor,
    tf.Tensor,
    tf.Tensor,
    tf.Tensor,
    tf.Tensor,
    tf.Tensor,
    tf.Tensor,
  ];
  const ids = tf.tensor2d(
    Array.from({ length: BATCH * SEQ }, (_, i) => (i * 7) % VOCAB),
    [BATCH, SEQ],
    'int32',
  );
  const labels = tf.tensor1d(
    Array.from({ length: BATCH * SEQ }, (_, i) => (i * 5 + 1) % VOCAB),
    'int32',
  );
  const x = tf.reshape(tf.add(plainEmbedding(wte, ids), wpe), [BATCH * SEQ, DIM]);
  const qkv = tf.reshape(plainLinear(plainLayerNorm(x, g1, b1, 1e-5), qkvW, qkvB), [BATCH, SEQ, 3 * DIM]);
  const attended = tf.reshape(plainCausalAttention(qkv, HEADS), [BATCH * SEQ, DIM]);
  const middle = tf.add(x, plainLinear(attended, projW, projB));
  const hidden = plainGelu(plainLinear(plainLayerNorm(middle, g2, b2, 1e-5), fc1W, fc1B));
  const out = tf.add(middle, plainLinear(hidden, fc2W, fc2B));
  return plainCrossEntropy(tf.matMul(out, wte, false, true), labels);
}

for (const engineCase of ENGINE_CASES) {
  describe(`a GPT of plain tfjs operations ${engineCase.name}`, () => {
    before(async () => {
      await engineCase.start();
    });

    test("has the loss and gradients of tfjs's JavaScript backend", async () => {
      const { expected, actual } = await onBothBackends(() => {
        const parameters = SHAPES.map((shape, i) =>
          tf.tensor(
            normals(
              shape.reduce((a, b) => a * b, 1),
              i,
              0.3,
            ),
            shape,
          ),
        );
        const { value, grads } = tf.valueAndGrads(loss)(parameters);
        return [value, ...grads];
      });
      actual.forEach((values, i) => {
        assertClose(values, expected[i] ?? [], 2e-5, i === 0 ? 'loss' : `gradient ${i - 1}`);
      });
    });
  });
}
