import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import * as tf from '../../../src/core/tf';
import { runOffloaded } from '../../../src/engine/autograd/offloaded';
import { runRegion } from '../../../src/engine/autograd/region';
import { gradients, runUnit } from '../../../src/engine/autograd/unit';
import type { Engine } from '../../../src/engine/backend/engine';
import { Parameter } from '../../../src/nn/parameter';
import { assertClose } from '../../support/close';
import { testEngine } from '../../support/wasm-test-engine';

let engine: Engine;
before(async () => {
  engine = await testEngine();
});

test('a loss that is not a tensor is an error that says what the loss is', () => {
  const cases = [
    [undefined, /The loss is undefined: is a return missing\?/],
    [Promise.resolve(tf.scalar(1)), /The loss is a promise: .*async/],
    [[tf.scalar(1)], /The loss is an array, .* Return one tensor/],
  ] as const;
  for (const [loss, message] of cases) {
    assert.throws(() => gradients(engine, () => loss as never), { code: 'SHAPE', message });
  }
  assert.throws(() => gradients(engine, tf.scalar(1) as never), {
    code: 'CONFIG',
    message: /takes a function/,
  });
});

const none = (): void => undefined;
const hooks = { preForward: none, postForward: none, preBackward: none, postBackward: none };

test('a unit whose forward returns no tensor is an error that names the unit', () => {
  const unit = { hooks, parameters: () => [], module: 'blocks.0' };
  const cases = [
    [undefined, /forward of 'blocks\.0' is undefined: is a return missing\?/],
    [
      [],
      /forward of 'blocks\.0' is an array, through which no gradient flows.*a plain object of such tensors/,
    ],
  ] as const;
  for (const [result, message] of cases) {
    assert.throws(() => gradients(engine, () => runUnit(engine, unit, () => result as never, [])), {
      code: 'SHAPE',
      message,
    });
  }
});

/** Runs a part of a model directly, or in a way that has a tape of its own. */
type RunPart = <I extends unknown[], O>(part: (...inputs: I) => O, inputs: I) => O;
const WAYS: Readonly<Record<string, RunPart>> = {
  directly: (part, inputs) => part(...inputs),
  'as a unit': (part, inputs) =>
    runUnit(engine, { hooks, parameters: () => [], module: 'part' }, part, inputs),
  'as a region': (part, inputs) => runRegion(engine, { module: 'part' }, part, inputs),
  'as a region with stored products': (part, inputs) =>
    runRegion(engine, { module: 'part', keepResultsOf: new Set(['Tanh']) }, part, inputs),
  'as a unit in a region': (part, inputs) =>
    runRegion(engine, { module: 'part' }, (...again) => WAYS['as a unit']?.(part, again) as never, inputs),
  'on the host': (part, inputs) => runOffloaded(engine, 'part', part, inputs),
};

for (const [way, run] of Object.entries(WAYS)) {
  test(`gradients flow through arrays and objects of tensors: a part ${way}`, () => {
    const weights = tf.tensor1d([0.5, -1, 2]);
    const before = { bytes: engine.memory.bytes + engine.host.bytes, numTensors: tf.memory().numTensors };
    const parameters = [
      [1, 2, 3],
      [4, 5, 6],
    ].map((values) => new Parameter(tf.tensor1d(values)));
    const [a, b] = parameters as [Parameter, Parameter];
    const part = ({ x, all: [y, name] }: { x: tf.Tensor; all: [tf.Tensor, string] }, mask: tf.Tensor) => {
      const z = tf.tanh(tf.mul(x, y));
      return {
        pair: [tf.mul(z, weights), tf.add(z, x)] as const,
        name,
        nothing: null,
        mask,
        unused: tf.exp(z),
        x,
      };
    };
    const mask = tf.tensor1d([1, 0, 1], 'int32');
    const pass = gradients(engine, () => {
      const out = run(part, [{ x: a.tensor, all: [tf.square(b.tensor), 'name'] }, mask]);
      assert.deepEqual([out.name, out.nothing, out.mask], ['name', null, mask]);
      const [first, second] = out.pair;
      return tf.sum(tf.addN([tf.mul(first, out.mask), tf.square(second), out.x]));
    });
    pass.backward();
    const expected = tf.grads((x: tf.Tensor, v: tf.Tensor) => {
      const out = part({ x, all: [tf.square(v), ''] }, mask);
      return tf.sum(tf.addN([tf.mul(out.pair[0], mask), tf.square(out.pair[1]), out.x]));
    })([a.tensor, b.tensor]);
    parameters.forEach((parameter, i) => {
      assertClose(parameter.grad?.dataSync() ?? [], expected[i]?.dataSync() ?? [], 1e-6);
      parameter.state.dispose();
    });
    tf.dispose([...expected, mask, pass.loss]);
    assert.deepEqual(
      { bytes: engine.memory.bytes + engine.host.bytes, numTensors: tf.memory().numTensors },
      before,
    );
    weights.dispose();
  });
}

test('backward after dispose is an error', () => {
  const weight = new Parameter(tf.ones([2]));
  const pass = gradients(engine, () => tf.sum(weight.tensor));
  pass.dispose();
  assert.throws(() => pass.backward(), { code: 'CONFIG', message: /backward or dispose has already run/ });
});
