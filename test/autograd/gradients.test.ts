import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { gradients, runUnit } from '../../src/autograd/unit';
import type { Engine } from '../../src/backend/engine';
import * as tf from '../../src/core/tf';
import { Parameter } from '../../src/nn/parameter';
import { testEngine } from '../support/wasm-test-engine';

let engine: Engine;
before(async () => {
  engine = await testEngine();
});

test('a loss that is not a tensor is an error that says what the loss is', () => {
  const cases = [
    [undefined, /The loss is undefined: is a return missing\?/],
    [Promise.resolve(tf.scalar(1)), /The loss is a promise: .*async/],
    [[tf.scalar(1)], /The loss is an array/],
  ] as const;
  for (const [loss, message] of cases) {
    assert.throws(() => gradients(engine, () => loss as never), { code: 'SHAPE', message });
  }
  assert.throws(() => gradients(engine, tf.scalar(1) as never), {
    code: 'CONFIG',
    message: /takes a function/,
  });
});

test('a unit whose forward returns several tensors is an error that names the unit', () => {
  const none = (): void => undefined;
  const hooks = { preForward: none, postForward: none, preBackward: none, postBackward: none };
  const unit = { hooks, parameters: () => [], module: 'blocks.0' };
  assert.throws(
    () => gradients(engine, () => runUnit(engine, unit, (x) => [x, x] as never, [tf.scalar(1)])),
    { code: 'SHAPE', message: /forward of 'blocks\.0' is an array, through which no gradient flows/ },
  );
});

test('backward after dispose is an error', () => {
  const weight = new Parameter(tf.ones([2]));
  const pass = gradients(engine, () => tf.sum(weight.tensor));
  pass.dispose();
  assert.throws(() => pass.backward(), { code: 'CONFIG', message: /backward or dispose has already run/ });
});
