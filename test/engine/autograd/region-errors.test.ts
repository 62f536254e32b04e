import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import * as tf from '../../../src/core/tf';
import { runOffloaded } from '../../../src/engine/autograd/offloaded';
import { runRegion } from '../../../src/engine/autograd/region';
import type { Region } from '../../../src/engine/autograd/region-call';
import { gradients, type Pass, runUnit, type Unit } from '../../../src/engine/autograd/unit';
import type { Engine } from '../../../src/engine/backend/engine';
import { normals } from '../../support/close';
import { testEngine } from '../../support/wasm-test-engine';

const DIM = 6;

describe('errors and early ends of checkpointed regions', () => {
  let engine: Engine;
  let x: tf.Tensor;
  let weight: tf.Tensor;
  let isLearning = false;
  before(async () => {
    engine = await testEngine();
    x = tf.tensor2d(normals(DIM * DIM, 'x'), [DIM, DIM]);
    weight = tf.tensor2d(normals(DIM * DIM, 'w'), [DIM, DIM]);
  });

  const unit: Unit = {
    module: 'u',
    parameters: () => [weight],
    hooks: {
      preForward() {},
      postForward() {},
      preBackward() {},
      postBackward([gradient]) {
        isLearning = gradient?.dataSync().some((value) => value !== 0) ?? false;
        gradient?.dispose();
      },
    },
  };

  function passOf(inside: (y: tf.Tensor) => tf.Tensor, region: Partial<Region> = {}): Pass {
    const inRegion = (y?: tf.Tensor): tf.Tensor =>
      runRegion(engine, { module: 'r', ...region }, (z) => inside(z as tf.Tensor), [y as tf.Tensor]);
    return gradients(engine, () => tf.mean(runUnit(engine, unit, inRegion, [x])));
  }

  const product = (y: tf.Tensor): tf.Tensor => tf.matMul(y, weight);

  /** Runs work and requires that it leaves no memory behind. */
  function leavesNothing(work: () => void): void {
    const before = [engine.memory.bytes, engine.host.bytes, tf.memory().numTensors];
    work();
    assert.deepEqual([engine.memory.bytes, engine.host.bytes, tf.memory().numTensors], before);
  }

  test('a second forward that gives another result is an error that shows both results', () => {
    leavesNothing(() => {
      let factor = 1;
      const pass = passOf((y) => tf.mul(product(y), factor++));
      assert.throws(() => pass.backward(), {
        code: 'ENGINE',
        message:
          /second forward of the checkpointed module 'r' gave \[6,6\] with the sum of squares .*give its random/,
      });
      pass.loss.dispose();
    });
  });

  test('a second forward that calls other operations than the first is an error', () => {
    leavesNothing(() => {
      let calls = 0;
      const pass = passOf((y) => (calls++ === 0 ? tf.tanh(product(y)) : product(y)), {
        keepResultsOf: new Set(['BatchMatMul', 'Tanh']),
      });
      assert.throws(() => pass.backward(), { code: 'ENGINE' });
      pass.loss.dispose();
    });
  });

  const selective: Partial<Region> = { keepResultsOf: new Set(['BatchMatMul', '_FusedMatMul']) };

  test('random numbers without a seed between two stored results are an error', () => {
    leavesNothing(() => {
      const pass = passOf((y) => product(tf.dropout(product(y), 0.5)), selective);
      assert.throws(() => pass.backward(), { code: 'ENGINE', message: /sum of squares.*give its random/s });
      pass.loss.dispose();
    });
  });

  test('a second forward that ends before a stored result is an error', () => {
    leavesNothing(() => {
      let calls = 0;
      const pass = passOf((y) => {
        const first = tf.tanh(product(y));
        return calls++ === 0 ? tf.add(first, product(first)) : tf.add(first, first);
      }, selective);
      assert.throws(() => pass.backward(), { code: 'ENGINE', message: /ended before/ });
      pass.loss.dispose();
    });
  });

  test('a result that no gradient reads is not stored, unless model code reads a value computed from it', () => {
    const held: number[] = [];
    for (const isRead of [false, true]) {
      leavesNothing(() => {
        const pass = passOf((y) => {
          const sum = tf.add(y, product(tf.tanh(product(y))));
          if (isRead) assert.ok(sum.dataSync().every(Number.isFinite));
          return sum;
        }, selective);
        held.push(engine.memory.bytes);
        pass.backward();
        assert.ok(isLearning);
        pass.loss.dispose();
      });
    }
    assert.equal((held[1] ?? 0) - (held[0] ?? 0), 4 * DIM * DIM);
  });

  test('the error of a failing second forward names the second forward and a possible reason', () => {
    leavesNothing(() => {
      const outside = tf.tidy(() => tf.keep(tf.square(x)));
      const pass = passOf((y) => tf.add(product(y), outside));
      outside.dispose();
      assert.throws(() => pass.backward(), {
        code: 'ENGINE',
        message: /The second forward of the checkpointed module 'r' failed: .*pass tensors as inputs/,
      });
      pass.loss.dispose();
    });
  });

  test('a first forward that throws, and a pass without backward, leave no memory behind', () => {
    const regions: Partial<Region>[] = [{}, { keepResultsOf: new Set(['BatchMatMul']) }];
    for (const region of [...regions, ...regions.map((r) => ({ ...r, offload: true }))]) {
      leavesNothing(() => {
        const fail = (y: tf.Tensor): tf.Tensor => {
          product(y);
          throw new Error('on purpose');
        };
        assert.throws(() => passOf(fail, region), /on purpose/);
        const pass = passOf((y) => tf.tanh(product(y)), region);
        pass.dispose();
        pass.loss.dispose();
      });
    }
  });

  test('outside gradients regions run as inference; inside tf.grads the error says what to do', () => {
    leavesNothing(() => {
      const region = (y: tf.Tensor): tf.Tensor => runRegion(engine, { module: 'r' }, tf.square, [y]);
      const offloaded = (y: tf.Tensor): tf.Tensor => runOffloaded(engine, 'o', tf.square, [y]);
      for (const run of [region, offloaded]) {
        run(x).dispose();
        assert.throws(
          () => tf.grads((y: tf.Tensor) => tf.mean(run(y)))([x]),
          /inside tf\.grad .*loss\.backward.*x\.grad/s,
        );
      }
    });
  });

  test('a caller may dispose the input before backward; the stored input is an activation of the module', () => {
    leavesNothing(() => {
      for (const offload of [false, true]) {
        const inUnit = (y?: tf.Tensor): tf.Tensor => {
          const input = tf.mul(product(y as tf.Tensor), 2);
          const z = runRegion(engine, { module: 'r', offload }, (v) => tf.square(v as tf.Tensor), [input]);
          assert.deepEqual(engine.tagOf(input), { cause: 'activation', module: 'r' });
          input.dispose();
          return z;
        };
        const held = engine.host.bytes;
        const pass = gradients(engine, () => tf.mean(runUnit(engine, unit, inUnit, [x])));
        assert.equal(engine.host.bytes - held, offload ? 4 * DIM * DIM : 0);
        isLearning = false;
        pass.backward();
        pass.loss.dispose();
        assert.ok(isLearning);
      }
    });
  });
});
