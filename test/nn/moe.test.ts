import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { ConfigError } from '../../src/core/errors';
import * as tf from '../../src/core/tf';
import type { Engine } from '../../src/engine/backend/engine';
import { gelu } from '../../src/engine/backend/ops';
import { crossEntropy, nllLoss } from '../../src/nn/layers/losses';
import { moe } from '../../src/nn/models/gpt';
import { MixtureOfExperts } from '../../src/nn/moe/mixture-of-experts';
import { valueKeys } from '../../src/nn/moe/row-keys';
import { TemperatureGating } from '../../src/nn/moe/temperature-gating';
import { assertClose, normals, valuesOf } from '../support/close';
import { collectGradients } from '../support/collect-gradients';
import { testEngine } from '../support/wasm-test-engine';

const DIM = 6;
const ROWS = 24;
const SHAPE = { layers: 2, dim: 8, heads: 2, vocab: 32, seq: 4, experts: 3 };

let engine: Engine;
before(async () => {
  engine = await testEngine();
});

const rows = (label: string, count = ROWS): tf.Tensor =>
  tf.tensor2d(normals(count * DIM, label), [count, DIM]);

test('a gate selects one expert per row, the same for the same rows and seed', () => {
  const gates = [3, 3, 4].map((seed) => new TemperatureGating(DIM, 4, { initTemp: 2, seed }));
  const x = rows('gate');
  const choices = gates.map((gate) => tf.tidy(() => gate.apply(x).arraySync() as number[][])); // [rows, experts]
  for (const row of choices[0] ?? []) assert.deepEqual([...row].sort(), [0, 0, 0, 1]);
  assert.deepEqual(choices[0], choices[1]);
  assert.notDeepEqual(choices[0], choices[2]);
  x.dispose();
  for (const gate of gates) gate.dispose();
  for (const wrong of [
    () => new TemperatureGating(0, 2),
    () => new TemperatureGating(2, 2, { initTemp: 0 }),
  ]) {
    assert.throws(wrong, ConfigError);
  }
});

test('a gate with one expert selects it, and losses over one class are those of torch', () => {
  const gate = new TemperatureGating(DIM, 1);
  assert.deepEqual([...tf.tidy(() => gate.apply(rows('one', 3)).dataSync())], [1, 1, 1]);
  gate.dispose();
  const [logits, labels] = [tf.tensor2d([[1], [2]]), tf.tensor1d([0, 0], 'int32')];
  const losses = tf.tidy(() =>
    [
      nllLoss(logits, labels),
      crossEntropy(logits, labels, { weight: tf.tensor1d([2]) }),
      crossEntropy(logits, labels, { labelSmoothing: 0.1 }),
    ].map((loss) => loss.dataSync()[0]),
  );
  // torch 2.13: F.nll_loss, F.cross_entropy, F.one_hot
  assert.deepEqual(losses, [-1.5, 0, 0]);
  assert.deepEqual([...tf.tidy(() => labels.oneHot(1, 1, 0).dataSync())], [1, 1]);
});

test('rows are spread over experts by their logits: the noise draws from the softmax', () => {
  const gate = new TemperatureGating(DIM, 3, { seed: 1 });
  engine.fill(gate.gate.weight.tensor, 0);
  const logits = tf.tensor1d([0.5, 0.3, 0.2].map(Math.log));
  engine.copyInto(gate.gate.bias.tensor, 0, logits);
  const many = 20_000;
  const shares = tf.tidy(() => [...tf.mean(gate.apply(rows('spread', many)), 0).dataSync()]);
  // Three standard deviations of a share are at most 3 · sqrt(0.25 / 20000) = 0.0107.
  [0.5, 0.3, 0.2].forEach((share, i) => {
    assert.ok(Math.abs((shares[i] ?? 0) - share) < 0.0107, `expert ${i}: ${shares[i]} instead of ${share}`);
  });
  logits.dispose();
  gate.dispose();
});

test("a gate's gradients equal those of the soft choice", () => {
  const gate = new TemperatureGating(DIM, 4, { initTemp: 1.5, seed: 3 });
  const x = rows('straight');
  const weights = tf.tensor2d(normals(ROWS * 4, 'weights'), [ROWS, 4]);
  const { gate: linear, temperature } = gate;
  const noise = gate.noiseOf(x);
  const soft = tf
    .grads((weight, bias, temp) => {
      const logits = tf.div(
        tf.add(tf.matMul(x, weight as tf.Tensor2D, false, true), bias as tf.Tensor),
        temp as tf.Tensor,
      );
      return tf.sum(tf.mul(tf.softmax(tf.add(logits, noise)), weights));
    })([linear.weight.tensor, linear.bias.tensor, temperature.tensor])
    .map(valuesOf);
  const hard = collectGradients(engine, gate)(() => tf.sum(tf.mul(gate.apply(x), weights)));
  ['gate.weight', 'gate.bias', 'temperature'].forEach((name, i) => {
    assertClose(hard.get(name) ?? [], soft[i] ?? [], 1e-5, name);
  });
});

test('a mixture equals the dense sum over its experts, in value and gradients', () => {
  const mixture = newMixture(3);
  const x = tf.reshape(rows('dense'), [2, ROWS / 2, DIM]);
  const y = tf.tensor3d(normals(ROWS * DIM, 'target'), [2, ROWS / 2, DIM]);
  const parameters = [...mixture.namedParameters()];
  const { value, grads } = dense(mixture, x, y);
  const held = engine.memory.bytes;
  const found = collectGradients(engine, mixture)(() => tf.mean(tf.square(tf.sub(mixture.apply(x), y))));
  assert.equal(engine.memory.bytes, held, 'a pass leaves nothing');
  const loss = tf.tidy(() => tf.mean(tf.square(tf.sub(mixture.apply(x), y))).dataSync());
  assertClose(loss, [value], 1e-6, 'loss');
  for (const [i, [name]] of parameters.entries())
    assertClose(found.get(name) ?? [], grads[i] ?? [], 1e-5, name);
  tf.dispose([x, y]);
  mixture.dispose();
});

test('an expert without rows has no gradient', () => {
  const mixture = newMixture(3);
  const avoided = tf.tensor1d([0, -1e4, 0]);
  engine.copyInto(gateOf(mixture).gate.bias.tensor, 0, avoided);
  const x = tf.reshape(rows('idle'), [1, ROWS, DIM]);
  const found = collectGradients(engine, mixture)(() => tf.mean(tf.square(mixture.apply(x))));
  for (const [name, grad] of found) assert.equal(grad === null, name.startsWith('experts.1.'), name);
  tf.dispose([avoided, x]);
  mixture.dispose();
});

test("a model's loss over two sequences is the mean of the losses of each alone", () => {
  const model = moe({ ...SHAPE, seed: 2 });
  const loss = (tokens: number[]): number =>
    tf.tidy(() => {
      const ids = tf.tensor2d(tokens, [tokens.length / SHAPE.seq, SHAPE.seq], 'int32');
      const targets = tf.tensor1d(tokens, 'int32');
      return model.apply(ids, targets).dataSync()[0] ?? Number.NaN;
    });
  const [a, b] = [
    [1, 2, 3, 4],
    [9, 2, 3, 30],
  ] as const;
  const whole = loss([...a, ...b]);
  assert.ok(Math.abs(whole - (loss([...a]) + loss([...b])) / 2) < 1e-6 * whole);
  assert.equal(loss([...a]), loss([...a]));
  model.dispose();
});

test('experts are a list with the name experts, and sizes that do not fit are refused', () => {
  const model = moe(SHAPE);
  assert.deepEqual(
    [...(model.blocks.at(1)?.moe.experts.at(2)?.parameters() ?? [])].map(({ name }) => name),
    ['fc1.weight', 'fc1.bias', 'fc2.weight', 'fc2.bias'].map((name) => `blocks.1.moe.experts.2.${name}`),
  );
  model.dispose();
  assert.throws(() => moe({ ...SHAPE, experts: 0 }), /moe: experts: .* got 0/);
  assert.throws(() => moe({ ...SHAPE, heads: 3 }), /moe: heads: dim 8 is not divisible by heads 3/);
});

function newMixture(experts: number): MixtureOfExperts {
  return new MixtureOfExperts({ dim: DIM, experts, keys: valueKeys }).manualSeed(5);
}

function gateOf({ gate }: MixtureOfExperts): TemperatureGating {
  assert.ok(gate instanceof TemperatureGating);
  return gate;
}

/** Every expert on every row, weighted by the gate: 1 for the selected expert, with the soft choice's gradient. */
function dense(
  mixture: MixtureOfExperts,
  x_BTD: tf.Tensor,
  y: tf.Tensor,
): { readonly value: number; readonly grads: Float32Array[] } {
  const names = [...mixture.namedParameters().keys()];
  const x = tf.reshape(x_BTD, [ROWS, DIM]) as tf.Tensor2D;
  const noise = gateOf(mixture).noiseOf(x);
  const chosen = mixture.gate.apply(x);
  const soft = tf.tidy(() => {
    const { gate, temperature } = gateOf(mixture);
    return tf.softmax(tf.add(tf.div(gate.apply(x), temperature.tensor), noise));
  });
  const run = (...values: tf.Tensor[]): tf.Scalar => {
    const of = (name: string): tf.Tensor2D => values[names.indexOf(name)] as tf.Tensor2D; // as the model has it
    const linear = (input: tf.Tensor2D, name: string): tf.Tensor2D =>
      tf.add(tf.matMul(input, of(`${name}.weight`), false, true), of(`${name}.bias`));
    const again = tf.softmax(tf.add(tf.div(linear(x, 'gate.gate'), of('gate.temperature')), noise));
    // chosen + again - soft has the value of `chosen` and the gradient of `again`.
    const outputs = [0, 1, 2].map((i) => {
      const fc1 = gelu(linear(x, `experts.${i}.fc1`)) as tf.Tensor2D;
      const mask = tf.slice(chosen, [0, i], [ROWS, 1]);
      const through = tf.add(
        tf.slice(again, [0, i], [ROWS, 1]),
        tf.sub(1, tf.slice(soft, [0, i], [ROWS, 1])),
      );
      return tf.mul(linear(fc1, `experts.${i}.fc2`), tf.mul(mask, through));
    });
    const sum = tf.reshape(tf.addN(outputs), x_BTD.shape);
    return tf.mean(tf.square(tf.sub(sum, y))) as tf.Scalar;
  };
  const { value, grads } = tf.valueAndGrads(run)(
    [...mixture.namedParameters().values()].map(({ tensor }) => tensor),
  );
  const found = { value: value.dataSync()[0] ?? Number.NaN, grads: grads.map(valuesOf) };
  tf.dispose([x, noise, chosen, soft, value, grads]);
  return found;
}
