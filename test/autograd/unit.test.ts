import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import * as tf from '@tensorflow/tfjs';
import { gradients, runUnit, type Unit } from '../../src/autograd/unit';
import type { Engine } from '../../src/backend/engine';
import { gelu, layerNorm, linear } from '../../src/backend/ops';
import { assertClose, normals, valuesOf } from '../support/close';
import { ENGINE_CASES } from '../support/engines';
import { ShardedUnit } from './sharded-unit';

const DIM = 12;
const ROWS = 6;
const PARAMETER_BYTES = 4 * DIM * DIM;

const square = (label: string): tf.Tensor => tf.tensor2d(normals(DIM * DIM, label, 0.3), [DIM, DIM]);
const input = (): tf.Tensor => tf.tensor2d(normals(ROWS * DIM, 'x'), [ROWS, DIM]);

for (const engineCase of ENGINE_CASES) {
  describe(`units ${engineCase.name}`, () => {
    let engine: Engine;
    before(async () => {
      engine = await engineCase.start();
    });

    /** Runs a model of units and compares what they collected with tf.grads on the same function. */
    function compare(
      units: readonly ShardedUnit[],
      model: (run: (unit: ShardedUnit, x: tf.Tensor) => tf.Tensor) => tf.Tensor,
    ): void {
      const wholes = units.map((unit) => unit.wholeCopies());
      const reference = tf.tidy(() => {
        const flat = wholes.flat();
        const grads = tf.grads((...all: tf.Tensor[]) => {
          const byUnit = new Map<ShardedUnit, tf.Tensor[]>();
          let place = 0;
          for (const unit of units) {
            byUnit.set(unit, all.slice(place, place + unit.size));
            place += unit.size;
          }
          for (const unit of units) unit.use(byUnit.get(unit) ?? null);
          return model((unit, x) => unit.forward(x));
        })(flat);
        for (const unit of units) unit.use(null);
        return grads.map(valuesOf);
      }) as unknown as Float32Array[]; // tidy's types know tensors only
      const pass = gradients(engine, () =>
        model((unit, x) => runUnit(engine, unit, (y) => unit.forward(y as tf.Tensor), [x])),
      );
      pass.backward();
      pass.loss.dispose();
      const collected = units.flatMap((unit) => unit.collected);
      assert.equal(collected.length, reference.length);
      collected.forEach((values, i) => {
        assertClose(values ?? [], reference[i] ?? [], 1e-6, `gradient ${i}`);
      });
      tf.dispose(wholes.flat());
    }

    const block = (name: string): ShardedUnit =>
      new ShardedUnit(
        name,
        [square(`${name}.w1`), square(`${name}.w2`), tf.tensor1d(normals(DIM, name))],
        (x, [w1, w2, b]) =>
          tf.add(
            x,
            tf.matMul(
              tf.tanh(tf.add(tf.matMul(x, w1 as tf.Tensor), b as tf.Tensor)),
              w2 as tf.Tensor,
              false,
              true,
            ),
          ),
      );

    test('gradients of units whose parameters are freed after forward equal tf.grads', () => {
      const held = engine.memory.bytes;
      const x = input();
      const units = [block('a'), block('b'), block('c')];
      compare(units, (run) => tf.mean(tf.square(units.reduce((y, unit) => run(unit, y), x))));
      x.dispose();
      assert.equal(engine.memory.bytes, held);
    });

    test('a root around its units gets its own gradients last, tied uses added up', () => {
      const held = engine.memory.bytes;
      const x = input();
      const order: string[] = [];
      const inner = [block('a'), block('b')];
      let run: (unit: ShardedUnit, x: tf.Tensor) => tf.Tensor = (unit, y) => unit.forward(y);
      const root: ShardedUnit = new ShardedUnit('root', [square('tied')], (y, [w]) => {
        const hidden = inner.reduce((h, unit) => run(unit, h), tf.matMul(y, w as tf.Tensor));
        return tf.matMul(hidden, w as tf.Tensor, false, true);
      });
      for (const unit of [root, ...inner]) unit.onBackward = () => void order.push(unit.module);
      compare([root, ...inner], (runner) => {
        run = runner;
        return tf.mean(tf.square(runner(root, x)));
      });
      assert.deepEqual(order, ['b', 'a', 'root']);
      x.dispose();
      assert.equal(engine.memory.bytes, held);
    });

    test('a tensor of the root that an inner unit uses gets the gradient of that use too', () => {
      const x = input();
      const inner = block('a');
      let run: (unit: ShardedUnit, x: tf.Tensor) => tf.Tensor = (unit, y) => unit.forward(y);
      const root: ShardedUnit = new ShardedUnit('root', [square('shared')], (y, [w]) => {
        inner.extra = (h) => tf.matMul(tf.sin(tf.matMul(h, w as tf.Tensor)), w as tf.Tensor, false, true);
        return tf.add(run(inner, y), tf.sum(w as tf.Tensor));
      });
      compare([root, inner], (runner) => {
        run = runner;
        return tf.mean(tf.square(runner(root, x)));
      });
      x.dispose();
    });

    test('operations with several outputs, unused parameters and fused kernels are covered', () => {
      const x = input();
      const unit = new ShardedUnit(
        'u',
        [square('w'), tf.tensor1d(normals(DIM, 'g')), tf.tensor1d(normals(DIM, 'b'))],
        (y, [w, g, b]) => {
          const [left, right] = tf.split(layerNorm(y, g as tf.Tensor, b as tf.Tensor), 2, 1) as [
            tf.Tensor,
            tf.Tensor,
          ];
          const parts = tf.unstack(tf.stack([gelu(left), tf.mul(right, 2), left]), 0) as [
            tf.Tensor,
            tf.Tensor,
            tf.Tensor,
          ];
          return linear(tf.concat([parts[0], parts[1]], 1), w as tf.Tensor, b as tf.Tensor);
        },
      );
      compare([unit], (run) => tf.mean(tf.square(run(unit, x))));
      const unused = new ShardedUnit('n', [square('w'), square('never used')], (y, [w]) =>
        tf.matMul(y, w as tf.Tensor),
      );
      const pass = gradients(engine, () =>
        tf.mean(runUnit(engine, unused, (y) => unused.forward(y as tf.Tensor), [x])),
      );
      pass.backward();
      assert.equal(unused.collected[1], null);
      tf.dispose([x, pass.loss]);
    });

    test("after forward the parameters' buffers are gone, and each unit's activations go with its backward", () => {
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
      // tanh's output in each unit, and the outputs of the units but the first's input, which is ours.
      const activations = 4 * 4 * ROWS * DIM;
      assert.equal(engine.memory.bytes - held, activations + 4);
      const duringBackward: number[] = [];
      for (const unit of units) unit.onBackward = () => void duringBackward.push(engine.memory.bytes - held);
      pass.backward();
      const whole = 2 * PARAMETER_BYTES + 4 * DIM;
      // At the end of b: its parameters and gradients, the gradient of its input, and what a saved.
      assert.equal(duringBackward[0], 2 * whole + 4 * ROWS * DIM * 2 + 4);
      tf.dispose([x, pass.loss]);
    });

    test('saved temporaries become activations of the module, gradients grad.full', () => {
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

    test("a gradient is the receiver's own: writing into it changes nothing else", () => {
      const x = input();
      const unit = new ShardedUnit('u', [square('w'), tf.zeros([ROWS, DIM])], (y, [w, shift]) =>
        tf.add(tf.matMul(y, w as tf.Tensor), shift as tf.Tensor),
      );
      unit.onBackward = (found) => {
        for (const gradient of found) if (gradient) engine.fill(gradient, 1e9);
      };
      const before = new ShardedUnit('before', [square('v')], (y, [v]) => tf.matMul(y, v as tf.Tensor));
      const pass = gradients(engine, () => {
        const y = runUnit(engine, before, (z) => before.forward(z as tf.Tensor), [x]);
        return tf.mean(tf.square(runUnit(engine, unit, (z) => unit.forward(z as tf.Tensor), [y])));
      });
      pass.backward();
      assert.ok(Math.max(...(before.collected[0] ?? []).map(Math.abs)) < 1e3);
      tf.dispose([x, pass.loss]);
    });

    test('outside of gradients a unit is inference and keeps nothing', () => {
      const x = input();
      const unit = block('a');
      const held = engine.memory.bytes;
      const y = runUnit(engine, unit, (z) => unit.forward(z as tf.Tensor), [x]);
      assert.equal(engine.memory.bytes - held, 4 * ROWS * DIM);
      tf.dispose([x, y]);
    });

    test("inside tf.grads, and for a sibling's parameter, there is an error that says what to do", () => {
      const x = input();
      const unit = block('a');
      const run = (): tf.Tensor => tf.mean(runUnit(engine, unit, (z) => unit.forward(z as tf.Tensor), [x]));
      assert.throws(() => tf.grads(run)([x]), /runs inside tf\.grads.*Use gradients/s);
      const kept: Unit = {
        module: 'kept',
        parameters: () => [x],
        hooks: { beforeForward() {}, afterForward() {}, beforeBackward() {}, afterBackward() {} },
      };
      assert.throws(
        () =>
          gradients(engine, () => {
            runUnit(engine, kept, () => tf.square(x), []);
            return tf.mean(runUnit(engine, unit, () => tf.square(x), []));
          }),
        /parameter of unit 'kept' is used outside of it/,
      );
      x.dispose();
    });

    test('a forward that throws, or a pass that is dropped, leaves no activation behind', () => {
      const x = input();
      const held = engine.memory.bytes;
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
      assert.ok(held <= base);
      x.dispose();
    });

    test('recover lets go of a pass that was cut off', () => {
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

    test('step after step nothing grows', () => {
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

    test('the seed scales the gradients', () => {
      const x = input();
      const [plain, scaled] = [1, 0.25].map((seed) => {
        const unit = block('a');
        const pass = gradients(engine, () =>
          tf.mean(runUnit(engine, unit, (z) => unit.forward(z as tf.Tensor), [x])),
        );
        pass.backward(seed);
        pass.loss.dispose();
        return unit.collected[0] ?? [];
      });
      assertClose(
        Float32Array.from(scaled ?? [], (v) => v * 4),
        plain ?? [],
        1e-7,
      );
      x.dispose();
    });
  });
}
