import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import * as tf from '../../../src/core/tf';
import { runRegion } from '../../../src/engine/autograd/region';
import { gradients, runUnit } from '../../../src/engine/autograd/unit';
import type { Engine } from '../../../src/engine/backend/engine';
import { gelu, layerNorm } from '../../../src/engine/backend/ops';
import { normals } from '../../support/close';
import { ENGINE_CASES } from '../../support/engines';
import { ShardedUnit } from './sharded-unit';

const DIM = 12;
const ROWS = 6;

const square = (label: string): tf.Tensor => tf.tensor2d(normals(DIM * DIM, label, 0.3), [DIM, DIM]);
const input = (): tf.Tensor => tf.tensor2d(normals(ROWS * DIM, 'x'), [ROWS, DIM]);

/** How a model runs its parts: as regions or directly. */
type Run = (module: string, forward: (x: tf.Tensor) => tf.Tensor, x: tf.Tensor) => tf.Tensor;

for (const engineCase of ENGINE_CASES) {
  describe(`checkpointed regions ${engineCase.name}`, () => {
    let engine: Engine;
    before(async () => {
      engine = await engineCase.start();
    });

    const asRegion: Run = (module, forward, x) =>
      runRegion(engine, { module }, (y) => forward(y as tf.Tensor), [x]);
    const plainly: Run = (_, forward, x) => forward(x);

    const block = (name: string): ShardedUnit =>
      new ShardedUnit(name, [square(`${name}.w1`), square(`${name}.w2`)], (x, [w1, w2]) =>
        tf.add(x, tf.matMul(tf.tanh(tf.matMul(x, w1 as tf.Tensor)), w2 as tf.Tensor, false, true)),
      );

    /** Gradients of a model's units, whether `run` makes regions or not; requires that no memory is left. */
    function collect(
      units: readonly ShardedUnit[],
      model: (runner: (unit: ShardedUnit, x: tf.Tensor) => tf.Tensor, run: Run) => tf.Tensor,
      run: Run,
    ): (Float32Array | null)[] {
      const held = engine.memory.bytes;
      const { numTensors } = tf.memory();
      const pass = gradients(engine, () =>
        model((unit, x) => runUnit(engine, unit, (y) => unit.forward(y as tf.Tensor), [x]), run),
      );
      pass.backward();
      pass.loss.dispose();
      assert.equal(engine.memory.bytes, held);
      assert.equal(tf.memory().numTensors, numTensors);
      return units.flatMap((unit) => unit.collected);
    }

    function requireSame(
      units: readonly ShardedUnit[],
      model: (runner: (unit: ShardedUnit, x: tf.Tensor) => tf.Tensor, run: Run) => tf.Tensor,
    ): void {
      const expected = collect(units, model, plainly);
      assert.ok(expected.some((values) => values?.some((value) => value !== 0)));
      assert.deepEqual(collect(units, model, asRegion), expected);
    }

    test('regions inside units give the same gradients to the bit', () => {
      const x = input();
      const units = [block('a'), block('b'), block('c')];
      requireSame(units, (runner, run) => {
        for (const unit of units)
          unit.extra = (y) => run(`${unit.module}.extra`, (z) => gelu(tf.mul(z, z)), y);
        return tf.mean(tf.square(units.reduce((y, unit) => runner(unit, y), x)));
      });
      x.dispose();
    });

    test('regions around units, and around units in units, give the same gradients to the bit', () => {
      const x = input();
      const [root, a, b] = [block('root'), block('a'), block('b')];
      requireSame([root, a, b], (runner, run) => {
        root.extra = (y) =>
          tf.add(
            y,
            run('pair', (z) => runner(b, runner(a, z)), y),
          );
        return tf.mean(tf.square(run('all', (z) => runner(root, z), x)));
      });
      x.dispose();
    });

    test('a region in a region, and a region that reads outer tensors, give the same gradients to the bit', () => {
      const x = input();
      const unit = new ShardedUnit(
        'u',
        [square('w'), tf.tensor1d(normals(DIM, 'g')), tf.tensor1d(normals(DIM, 'b'))],
        (y) => y,
      );
      requireSame([unit], (runner, run) => {
        unit.extra = (y) => {
          const parameters = unit.parameters as () => readonly [tf.Tensor, tf.Tensor, tf.Tensor];
          const outside = tf.tanh(tf.matMul(y, parameters()[0]));
          const mask = tf.cast(tf.greater(y, 0), 'float32');
          const inner = (z: tf.Tensor): tf.Tensor => {
            const [w, g, b] = parameters();
            return layerNorm(tf.mul(tf.add(tf.matMul(z, w), outside), mask), g, b);
          };
          const region = run('outer', (z) => run('inner', inner, gelu(inner(z))), outside);
          return tf.add(region, tf.matMul(outside, parameters()[0]));
        };
        return tf.mean(tf.square(runner(unit, x)));
      });
      x.dispose();
    });
  });
}
