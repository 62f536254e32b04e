import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import * as tf from '../../../src/core/tf';
import { gradients, runUnit, type Unit } from '../../../src/engine/autograd/unit';
import type { Engine } from '../../../src/engine/backend/engine';
import { ENGINE_CASES } from '../../support/engines';
import { block, DIM, input, ROWS } from './unit-blocks';

const PARAMETER_BYTES = 4 * DIM * DIM;

for (const engineCase of ENGINE_CASES) {
  describe(`memory of units ${engineCase.name}`, () => {
    let engine: Engine;
    before(async () => {
      engine = await engineCase.start();
    });

    test("parameters' buffers are freed after forward, and each unit's activations with its backward", () => {
      const x = input();
      const units = [block('a'), block('b')];
      const held = engine.memory.bytes;
      const pass = gradients(engine, () => {
        const y = units.reduce(
          (h, unit) => runUnit(engine, unit, (z) => unit.forward(z as tf.Tensor), [h]),
          x,
        );
        return tf.mean(tf.square(y));
      });
      // tanh's output in each unit, and the units' outputs; the first unit's input is the test's own.
      const activations = 4 * 4 * ROWS * DIM;
      assert.equal(engine.memory.bytes - held, activations + 4);
      const duringBackward: number[] = [];
      for (const unit of units) unit.onBackward = () => void duringBackward.push(engine.memory.bytes - held);
      pass.backward();
      const whole = 2 * PARAMETER_BYTES + 4 * DIM;
      // At the end of b: b's parameters and gradients, the gradient of b's input, and a's saved tensors.
      assert.equal(duringBackward[0], 2 * whole + 4 * ROWS * DIM * 2 + 4);
      tf.dispose([x, pass.loss]);
    });

    test('saved temporaries become activations of the module, and gradients get the cause grad.full', () => {
      const x = input();
      const unit = block('blocks.0');
      const seen: string[] = [];
      unit.onBackward = (found) => {
        for (const gradient of found) if (gradient) seen.push(JSON.stringify(engine.tagOf(gradient)));
      };
      const retags: string[] = [];
      engine.observe({
        allocated() {},
        freed() {},
        collective() {},
        span() {},
        retagged: (_, tag) => void retags.push(`${tag.cause} ${tag.module}`),
      });
      const pass = gradients(engine, () =>
        tf.mean(runUnit(engine, unit, (y) => unit.forward(y as tf.Tensor), [x])),
      );
      assert.ok(retags.includes('activation blocks.0'));
      pass.backward();
      assert.deepEqual(seen, Array(3).fill('{"cause":"grad.full","module":"blocks.0"}'));
      tf.dispose([x, pass.loss]);
    });

    test('outside gradients a unit runs as inference and stores nothing', () => {
      const x = input();
      const unit = block('a');
      const held = engine.memory.bytes;
      const y = runUnit(engine, unit, (z) => unit.forward(z as tf.Tensor), [x]);
      assert.equal(engine.memory.bytes - held, 4 * ROWS * DIM);
      tf.dispose([x, y]);
    });

    test("a unit inside tf.grads, and one that uses another unit's parameter, are errors that say what to do", () => {
      const x = input();
      const unit = block('a');
      const run = (): tf.Tensor => tf.mean(runUnit(engine, unit, (z) => unit.forward(z as tf.Tensor), [x]));
      assert.throws(() => tf.grads(run)([x]), /inside tf\.grad .*loss\.backward.*x\.grad/s);
      const kept: Unit = {
        module: 'kept',
        parameters: () => [x],
        hooks: { preForward() {}, postForward() {}, preBackward() {}, postBackward() {} },
      };
      assert.throws(
        () =>
          gradients(engine, () => {
            runUnit(engine, kept, () => tf.square(x), []);
            return tf.mean(runUnit(engine, unit, () => tf.square(x), []));
          }),
        /parameter of unit 'kept' is used outside of this unit/,
      );
      x.dispose();
    });

    test('a forward that throws and a pass that is dropped leave no activations behind', () => {
      const x = input();
      const units = [block('a'), block('b')];
      const base = engine.memory.bytes;
      const forward = (fail: boolean) => (): tf.Tensor => {
        const y = units.reduce(
          (h, unit) => runUnit(engine, unit, (z) => unit.forward(z as tf.Tensor), [h]),
          x,
        );
        if (fail) throw new Error('on purpose');
        return tf.mean(y);
      };
      assert.throws(() => gradients(engine, forward(true)), /on purpose/);
      assert.equal(engine.memory.bytes, base);
      const pass = gradients(engine, forward(false));
      pass.dispose();
      pass.loss.dispose();
      assert.equal(engine.memory.bytes, base);
      x.dispose();
    });

    test('recover frees the memory of a pass that was cut off', () => {
      const x = input();
      const unit = block('a');
      const held = engine.memory.bytes;
      const pass = gradients(engine, () =>
        tf.mean(runUnit(engine, unit, (z) => unit.forward(z as tf.Tensor), [x])),
      );
      assert.ok(engine.memory.bytes > held + 4);
      engine.recover([x, pass.loss]);
      assert.equal(engine.memory.bytes, held + 4);
      tf.dispose([x, pass.loss]);
    });

    test('memory does not grow from step to step', () => {
      const x = input();
      const unit = block('a');
      const step = (): void => {
        const pass = gradients(engine, () =>
          tf.mean(runUnit(engine, unit, (z) => unit.forward(z as tf.Tensor), [x])),
        );
        pass.backward();
        pass.loss.dispose();
      };
      step();
      const { bytes, numBuffers, heapBytes } = engine.memory;
      const { numTensors } = tf.memory();
      for (let i = 0; i < 300; i++) step();
      assert.deepEqual(engine.memory, { bytes, numBuffers, heapBytes });
      assert.equal(tf.memory().numTensors, numTensors);
      x.dispose();
    });
  });
}
