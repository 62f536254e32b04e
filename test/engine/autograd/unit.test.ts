import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import * as tf from '../../../src/core/tf';
import { gradients, runUnit } from '../../../src/engine/autograd/unit';
import type { Engine } from '../../../src/engine/backend/engine';
import { gelu, layerNorm, linear } from '../../../src/engine/backend/ops';
import { assertClose, normals, valuesOf } from '../../support/close';
import { ENGINE_CASES } from '../../support/engines';
import { ShardedUnit } from './sharded-unit';
import { block, DIM, input, ROWS, square } from './unit-blocks';

for (const engineCase of ENGINE_CASES) {
  describe(`units ${engineCase.name}`, () => {
    let engine: Engine;
    before(async () => {
      engine = await engineCase.start();
    });

    /** Runs a model of units and compares the collected gradients with tf.grads of the same function. */
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

    test('a second backward of the same forward is an error', () => {
      const x = input();
      const unit = block('a');
      const pass = gradients(engine, () =>
        tf.mean(runUnit(engine, unit, (y) => unit.forward(y as tf.Tensor), [x])),
      );
      pass.backward();
      assert.throws(() => pass.backward(), { code: 'CONFIG', message: /has already run for this forward/ });
      tf.dispose([x, pass.loss]);
    });

    test('gradients of units whose parameters are freed after forward equal tf.grads', () => {
      const held = engine.memory.bytes;
      const x = input();
      const units = [block('a'), block('b'), block('c')];
      compare(units, (run) => tf.mean(tf.square(units.reduce((y, unit) => run(unit, y), x))));
      x.dispose();
      assert.equal(engine.memory.bytes, held);
    });

    test('a root around its units gets its own gradients last, and the gradients of tied uses are added up', () => {
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

    test('a tensor of the root that an inner unit uses also gets the gradient of that use', () => {
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

    test('gradients are right for operations with several outputs, unused parameters and fused kernels', () => {
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

    test('a gradient belongs to its receiver: writing into it changes nothing else', () => {
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
