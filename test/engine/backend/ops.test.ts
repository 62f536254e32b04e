import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import * as tf from '../../../src/core/tf';
import { gradients, runUnit } from '../../../src/engine/autograd/unit';
import type { Engine } from '../../../src/engine/backend/engine';
import {
  causalAttention,
  causalSoftmax,
  embedding,
  gelu,
  layerNorm,
  linear,
  softmaxCrossEntropy,
} from '../../../src/engine/backend/ops';
import {
  plainCausalAttention,
  plainCausalSoftmax,
  plainCrossEntropy,
  plainEmbedding,
  plainGelu,
  plainLayerNorm,
  plainLinear,
} from '../../../src/engine/backend/plain-ops';
import { assertClose, normals, valuesOf } from '../../support/close';
import { ENGINE_CASES } from '../../support/engines';

type Op = (...inputs: tf.Tensor[]) => tf.Tensor;

interface OpCase {
  readonly name: string;
  readonly fused: Op;
  readonly plain: Op;
  readonly shapes: readonly (readonly number[])[];
}

const LABELS = [0, 12, 5, 3, 3, 1];
const IDS = [4, 0, 4, 4, 2, 1];
const labels = (): tf.Tensor => tf.tensor1d(LABELS, 'int32');
const ids = (): tf.Tensor => tf.tensor2d(IDS, [2, 3], 'int32');

// Widths that are and are not divisible by the four lanes of SIMD.
const CASES: readonly OpCase[] = [
  ...[
    [6, 8, 12],
    [5, 7, 3],
    [1, 1, 1],
  ].map(([rows = 1, inputs = 1, outputs = 1]) => ({
    name: `linear [${rows}, ${inputs}] to ${outputs}`,
    fused: linear as Op,
    plain: plainLinear as Op,
    shapes: [[rows, inputs], [outputs, inputs], [outputs]],
  })),
  ...[16, 13, 6].map((width) => ({
    name: `layerNorm over ${width}`,
    fused: ((x, w, b) => layerNorm(x as tf.Tensor, w as tf.Tensor, b as tf.Tensor)) as Op,
    plain: ((x, w, b) => plainLayerNorm(x as tf.Tensor, w as tf.Tensor, b as tf.Tensor, 1e-5)) as Op,
    shapes: [[3, 2, width], [width], [width]],
  })),
  ...[64, 33, 3].map((size) => ({
    name: `gelu of ${size}`,
    fused: ((x) => gelu(x as tf.Tensor)) as Op,
    plain: plainGelu as Op,
    shapes: [[size]],
  })),
  ...[
    [4, 4],
    [7, 7],
    [3, 6],
  ].map(([rows = 1, columns = 1]) => ({
    name: `causalSoftmax [${rows}, ${columns}]`,
    fused: ((s) => causalSoftmax(s as tf.Tensor, 0.3)) as Op,
    plain: ((s) => plainCausalSoftmax(s as tf.Tensor, 0.3)) as Op,
    shapes: [[2, 3, rows, columns]],
  })),
  ...[
    [8, 4, 2],
    [5, 3, 1],
    [6, 5, 3],
  ].map(([seq = 1, headDim = 1, heads = 1]) => ({
    name: `causalAttention of ${heads} heads of ${headDim} over ${seq}`,
    fused: ((x) => causalAttention(x as tf.Tensor, heads)) as Op,
    plain: ((x) => plainCausalAttention(x as tf.Tensor, heads)) as Op,
    shapes: [[2, seq, 3 * heads * headDim]],
  })),
  ...[13, 16].flatMap((classes) =>
    [false, true].map((consumeLogits) => ({
      name: `softmaxCrossEntropy over ${classes}${consumeLogits ? ', logits consumed' : ''}`,
      // The logits are an intermediate result, as in a model, because cross-entropy may overwrite them.
      fused: ((x) => softmaxCrossEntropy(tf.mul(x as tf.Tensor, 2), labels(), { consumeLogits })) as Op,
      plain: ((x) => plainCrossEntropy(tf.mul(x as tf.Tensor, 2), labels())) as Op,
      shapes: [[6, classes]],
    })),
  ),
  {
    name: 'softmaxCrossEntropy of consumed logits that an earlier gradient needs',
    fused: ((x) => softmaxCrossEntropy(tf.tanh(x as tf.Tensor), labels(), { consumeLogits: true })) as Op,
    plain: ((x) => plainCrossEntropy(tf.tanh(x as tf.Tensor), labels())) as Op,
    shapes: [[6, 13]],
  },
  ...[8, 5].map((width) => ({
    name: `embedding of width ${width}`,
    fused: ((t) => embedding(t as tf.Tensor, ids())) as Op,
    plain: ((t) => plainEmbedding(t as tf.Tensor, ids())) as Op,
    shapes: [[5, width]],
  })),
];

/** The output, and the gradients of a sum weighted by fixed numbers, computed by tfjs itself. */
function byTfjs(op: Op, shapes: OpCase['shapes']): Float32Array[] {
  return tf.tidy(() => {
    const inputs = inputsOf(shapes);
    const value = op(...inputs);
    const grads = tf.grads((...xs: tf.Tensor[]) => weighted(op(...xs)))(inputs);
    return [value, ...grads].map(valuesOf);
  }) as unknown as Float32Array[]; // tidy's types know tensors only
}

/** The same gradients through a unit's recording, where kernels may overwrite inputs that nothing reads later. */
function byUnit(engine: Engine, op: Op, shapes: OpCase['shapes']): Float32Array[] {
  const parameters = inputsOf(shapes);
  const collected: Float32Array[] = [];
  const hooks = {
    preForward() {},
    postForward() {},
    preBackward() {},
    postBackward(found: readonly (tf.Tensor | null)[]) {
      for (const gradient of found) {
        collected.push(gradient === null ? new Float32Array() : valuesOf(gradient));
        gradient?.dispose();
      }
    },
  };
  const unit = { hooks, parameters: () => parameters, module: 'unit' };
  const pass = gradients(engine, () => runUnit(engine, unit, () => weighted(op(...parameters)), []));
  pass.backward();
  pass.loss.dispose();
  for (const parameter of parameters) parameter.dispose();
  return collected;
}

function inputsOf(shapes: OpCase['shapes']): tf.Tensor[] {
  return shapes.map((shape, i) =>
    tf.tensor(
      normals(
        shape.reduce((a, b) => a * b, 1),
        i,
      ),
      [...shape],
    ),
  );
}

function weighted(y: tf.Tensor): tf.Tensor {
  return tf.sum(tf.mul(y, tf.tensor(normals(y.size, 'weights'), y.shape)));
}

for (const engineCase of ENGINE_CASES) {
  describe(`fused operations ${engineCase.name}`, () => {
    let engine: Engine;
    before(async () => {
      engine = await engineCase.start();
    });

    for (const { name, fused, plain, shapes } of CASES) {
      test(`${name} equals its unfused form in value and gradients`, () => {
        const held = engine.memory.bytes;
        const expected = byTfjs(plain, shapes);
        const actual = byTfjs(fused, shapes);
        actual.forEach((values, i) => {
          assertClose(values, expected[i] ?? [], 2e-6, i === 0 ? 'value' : `gradient ${i - 1}`);
        });
        const recorded = byUnit(engine, fused, shapes);
        assert.equal(recorded.length, shapes.length);
        recorded.forEach((values, i) => {
          assertClose(values, expected[i + 1] ?? [], 2e-6, `recorded gradient ${i}`);
        });
        assert.equal(engine.memory.bytes, held);
      });
    }

    test('a label or an index out of range is an error that names it, and no memory leaks', () => {
      const held = engine.memory.bytes;
      tf.tidy(() => {
        const bad = tf.tensor1d([0, 9], 'int32');
        assert.throws(
          () => softmaxCrossEntropy(tf.zeros([2, 4]), bad),
          /CrossEntropy: element 1 of labels is 9, but indices of 4 classes are 0 to 3/,
        );
        assert.throws(
          () => embedding(tf.zeros([4, 2]), bad),
          /Embedding: element 1 of ids is 9, but indices of the table's 4 rows are 0 to 3/,
        );
        assert.throws(() => linear(tf.zeros([2, 4]), tf.zeros([3, 5]), tf.zeros([3])), /do not fit together/);
      });
      assert.equal(engine.memory.bytes, held);
    });

    test("cross-entropy allocates one buffer of the logits' size and writes the gradient into it", () => {
      const logitBytes = 512 * 256 * 4;
      const table = tf.tensor(normals(256 * 8, 'table'), [256, 8]);
      const rows = tf.tensor(normals(512 * 8, 'rows'), [512, 8]);
      const targets = tf.tensor1d(
        Array.from({ length: 512 }, (_, i) => i % 256),
        'int32',
      );
      const held = engine.memory.bytes;
      let peak = 0;
      engine.observe({
        allocated: () => {
          peak = Math.max(peak, engine.memory.bytes - held);
        },
        retagged() {},
        freed() {},
        collective() {},
        span() {},
      });
      const hooks = {
        preForward() {},
        postForward() {},
        preBackward() {},
        postBackward: (found: readonly (tf.Tensor | null)[]) =>
          tf.dispose([...found].filter((g) => g !== null)),
      };
      const unit = { hooks, parameters: () => [table], module: '' };
      const root = (): tf.Tensor => softmaxCrossEntropy(tf.matMul(rows, table, false, true), targets);
      const pass = gradients(engine, () => runUnit(engine, unit, root, []));
      pass.backward();
      tf.dispose([pass.loss, table, rows, targets]);
      // Without a BLAS there is also the transposed operand of a matmul: the gradient of the logits once more.
      const buffers = engine.blas.library === null ? 2 : 1;
      assert.ok(
        peak < (buffers + 0.25) * logitBytes,
        `${peak} bytes at the peak, the logits are ${logitBytes}`,
      );
    });
  });
}
