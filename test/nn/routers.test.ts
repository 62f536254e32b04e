import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import type { RouterOptions } from '../../src/config/router-options';
import * as tf from '../../src/core/tf';
import { gradients } from '../../src/engine/autograd/unit';
import type { Engine } from '../../src/engine/backend/engine';
import { gelu } from '../../src/engine/backend/ops';
import type { Linear } from '../../src/nn/linear';
import { moe } from '../../src/nn/models/gpt';
import { addAuxiliaryLosses, MixtureOfExperts } from '../../src/nn/moe/mixture-of-experts';
import { assertClose, normals, valuesOf } from '../support/close';
import { collectGradients } from '../support/collect-gradients';
import { testEngine } from '../support/wasm-test-engine';

const [DIM, ROWS, EXPERTS] = [6, 24, 4];

let engine: Engine;
before(async () => {
  engine = await testEngine();
});

/** The options of a router, and the experts of each row by plain loops. */
interface Expected {
  readonly options: RouterOptions;
  chosen(probabilities: number[][]): number[][];
}

/** The indices of the k largest numbers. */
const top = (numbers: readonly number[], k: number): number[] =>
  numbers
    .map((_, i) => i)
    .sort((a, b) => (numbers[b] ?? 0) - (numbers[a] ?? 0))
    .slice(0, k);

const byRow =
  (k: number, capacity = ROWS) =>
  (probabilities: number[][]): number[][] => {
    const room = new Array<number>(EXPERTS).fill(capacity);
    return probabilities.map((row) =>
      top(row, k).filter((expert) => {
        room[expert] = (room[expert] ?? 0) - 1;
        return (room[expert] ?? 0) >= 0;
      }),
    );
  };

const byExpert =
  (rows: number) =>
  (probabilities: number[][]): number[][] => {
    const columns = Array.from({ length: EXPERTS }, (_, e) => probabilities.map((row) => row[e] ?? 0));
    const taken = columns.map((column) => top(column, rows));
    return probabilities.map((_, row) => taken.flatMap((own, expert) => (own.includes(row) ? [expert] : [])));
  };

const CASES: Readonly<Record<string, Expected>> = {
  'topk 2': { options: { router: 'topk' }, chosen: byRow(2) },
  'topk 3 within a capacity': {
    options: { router: 'topk', topK: 3, capacityFactor: 0.5 },

    chosen: byRow(3, 9),
  },
  switch: { options: { router: 'switch', capacityFactor: 0.5 }, chosen: byRow(1, 3) },
  'switch without a limit': { options: { router: 'switch', capacityFactor: null }, chosen: byRow(1) },
  'expert choice': { options: { router: 'expert-choice' }, chosen: byExpert(12) },
};

for (const [name, { options, chosen }] of Object.entries(CASES)) {
  test(`${name}: a mixture equals a dense loop over its experts, in value, gradients and loads`, () => {
    const mixture = newMixture(options);
    const x = tf.tensor2d(normals(ROWS * DIM, 'routers'), [ROWS, DIM]);
    const y = tf.tensor2d(normals(ROWS * DIM, 'targets'), [ROWS, DIM]);
    const { value, grads, pairs } = dense(mixture, x, y, chosen);
    const loss = (): tf.Tensor => tf.mean(tf.square(tf.sub(mixture.apply(x), y)));
    const held = engine.memory.bytes;
    const found = collectGradients(engine, mixture)(loss);
    assert.equal(engine.memory.bytes, held, 'a pass leaves nothing');
    const { tokens, dropped } = mixture.takeLoad();
    assert.deepEqual(
      tokens,
      Array.from({ length: EXPERTS }, (_, e) => pairs.filter((own) => own === e).length),
    );
    if (options.router !== 'expert-choice') {
      assert.equal(
        dropped.reduce((sum, count) => sum + count, pairs.length),
        ROWS * mixture.options.topK,
      );
    }
    const computed = tf.tidy(() => loss().dataSync());
    assertClose(computed, [value], 1e-6, 'loss');
    for (const [i, [parameter]] of [...mixture.namedParameters()].entries())
      assertClose(found.get(parameter) ?? [0], grads[i] ?? [], 1e-5, parameter);
    tf.dispose([x, y]);
    mixture.dispose();
  });
}

test('the auxiliary loss and its gradient are those of N times the sum of shares times mean probabilities', () => {
  const weight = 0.3;
  const mixture = newMixture({ router: 'topk', auxLossWeight: weight });
  const x = tf.tensor2d(normals(ROWS * DIM, 'auxiliary'), [ROWS, DIM]);
  const gate = mixture.gate as Linear<false>; // router 'topk'
  const probabilities = tf.tidy(() => tf.softmax(gate.apply(x)).arraySync() as number[][]); // [rows, experts]
  const counts = new Array<number>(EXPERTS).fill(0);
  for (const expert of byRow(2)(probabilities).flat()) counts[expert] = (counts[expert] ?? 0) + 1;
  const factors = tf.tensor2d(
    counts.map((count) => (weight * EXPERTS * count) / (2 * ROWS)),
    [1, EXPERTS],
  );
  const auxiliary = (w: tf.Tensor): tf.Tensor => {
    const soft = tf.softmax(tf.matMul(x, w as tf.Tensor2D, false, true));
    return tf.sum(tf.mul(tf.mean(soft, 0, true), factors));
  };
  const { value, grad } = tf.valueAndGrad(auxiliary)(gate.weight.tensor);
  const without = newMixture({ router: 'topk' });
  const lossOf = (one: MixtureOfExperts): tf.Tensor => tf.mean(one.apply(x));
  const [own, plain] = [mixture, without].map((one) => collectGradients(engine, one));
  // The gradients are those of three times the loss.
  const found = own?.(() => tf.mul(addAuxiliaryLosses(mixture, lossOf(mixture)), 3)).get('gate.weight');
  const base = plain?.(() => tf.mul(lossOf(without), 3)).get('gate.weight');
  assertClose(
    found ?? [],
    valuesOf(grad).map((g, i) => 3 * g + (base?.[i] ?? 0)),
    1e-5,
    'gradient',
  );
  const totals = [mixture, without].map((one) =>
    tf.tidy(() => addAuxiliaryLosses(one, lossOf(one)).dataSync()[0]),
  );
  assertClose([(totals[0] ?? 0) - (totals[1] ?? 0)], valuesOf(value), 1e-5, 'value');
  const forgotten = gradients(engine, () => lossOf(mixture));
  assert.throws(() => forgotten.backward(), /auxLossWeight: the loss does not include/);
  mixture.eval();
  assert.equal(
    tf.tidy(() => addAuxiliaryLosses(mixture, lossOf(mixture)).dataSync()[0]),
    totals[1],
  );
  forgotten.loss.dispose();
  tf.dispose([value, grad, x, factors]);
  mixture.dispose();
  without.dispose();
});

test('options of routers that contradict each other are refused', () => {
  const wrong: readonly [RouterOptions, RegExp][] = [
    [{ router: 'topk', topK: 5 }, /topK: a row goes to 5 experts, but there are 4/],
    [{ router: 'topk', topK: 1 }, /topK: .* use router 'switch'/],
    [{ router: 'switch', topK: 2 }, /topK: router 'switch' sends a row to 1 expert/],
    [{ router: 'expert-choice', capacityFactor: null }, /capacityFactor: cannot be null with router/],
    [{ router: 'temperature', auxLossWeight: 0.1 }, /auxLossWeight: has no effect with router 'temperature'/],
    [{ router: 'expert-choice', biasUpdateRate: 0.1 }, /biasUpdateRate: has no effect/],
  ];
  // One expert is the same as topK 1.
  assert.throws(
    () => new MixtureOfExperts({ dim: DIM, experts: 1, router: 'topk' }),
    /topK: with topK 1, as with one expert, the factor .* use router 'switch'/,
  );
  for (const [options, message] of wrong) {
    assert.throws(() => newMixture(options), message);
    assert.throws(
      () => moe({ layers: 1, dim: 8, heads: 2, vocab: 8, seq: 4, experts: 4, ...options }),
      message,
    );
  }
});

function newMixture(options: RouterOptions): MixtureOfExperts {
  return new MixtureOfExperts({ dim: DIM, experts: EXPERTS, ...options }).manualSeed(5);
}

/** Every expert on every row, times its factor, which is 0 for experts that were not chosen or dropped the row. */
function dense(
  mixture: MixtureOfExperts,
  x: tf.Tensor2D,
  y: tf.Tensor2D,
  chosen: Expected['chosen'],
): { readonly value: number; readonly grads: Float32Array[]; readonly pairs: readonly number[] } {
  const names = [...mixture.namedParameters().keys()];
  const gate = mixture.gate as Linear<false>; // not router 'temperature'
  const { router, topK } = mixture.options;
  const probabilities = tf.tidy(() => tf.softmax(gate.apply(x)).arraySync() as number[][]); // [rows, experts]
  const kept = chosen(probabilities);
  const maskOf = (rows: readonly (readonly number[])[]): tf.Tensor2D =>
    tf.tensor2d(rows.map((own) => Array.from({ length: EXPERTS }, (_, e) => (own.includes(e) ? 1 : 0))));
  const run = (...values: tf.Tensor[]): tf.Scalar => {
    const of = (name: string): tf.Tensor2D => values[names.indexOf(name)] as tf.Tensor2D; // as the model has it
    const linear = (input: tf.Tensor2D, name: string): tf.Tensor2D =>
      tf.add(tf.matMul(input, of(`${name}.weight`), false, true), of(`${name}.bias`));
    let factors: tf.Tensor = tf.softmax(tf.matMul(x, of('gate.weight'), false, true));
    if (router === 'topk') {
      const all = tf.mul(factors, maskOf(probabilities.map((row) => top(row, topK))));
      factors = tf.div(all, tf.sum(all, -1, true));
    }
    const weighted = tf.mul(factors, maskOf(kept));
    const outputs = Array.from({ length: EXPERTS }, (_, e) => {
      const inner = gelu(linear(x, `experts.${e}.fc1`)) as tf.Tensor2D;
      return tf.mul(linear(inner, `experts.${e}.fc2`), tf.slice(weighted, [0, e], [ROWS, 1]));
    });
    return tf.mean(tf.square(tf.sub(tf.addN(outputs), y))) as tf.Scalar;
  };
  const tensors = [...mixture.namedParameters().values()].map(({ tensor }) => tensor);
  const { value, grads } = tf.tidy(() => tf.valueAndGrads(run)(tensors));
  const found = { value: value.dataSync()[0] ?? Number.NaN, grads: grads.map(valuesOf), pairs: kept.flat() };
  tf.dispose([value, grads]);
  return found;
}
