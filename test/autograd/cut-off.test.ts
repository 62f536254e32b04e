import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { runInNewContext } from 'node:vm';
import * as tf from '@tensorflow/tfjs';
import { runOffloaded } from '../../src/autograd/offloaded';
import { runRegion } from '../../src/autograd/region';
import { gradients, runUnit, type Unit } from '../../src/autograd/unit';
import type { Engine } from '../../src/backend/engine';
import { FUSED } from '../../src/backend/fused/fused-kernel';
import { interceptKernels } from '../../src/backend/kernel-interception';
import { gelu, linear } from '../../src/backend/ops';
import { normals, valuesOf } from '../support/close';
import { testEngine } from '../support/wasm-test-engine';

const DIM = 8;
const ROWS = 4;

type Part = (engine: Engine, name: string, forward: (x: tf.Tensor) => tf.Tensor, x: tf.Tensor) => tf.Tensor;

const PARTS: Readonly<Record<string, Part>> = {
  plain: (_engine, _name, forward, x) => forward(x),
  checkpointed: (engine, module, forward, x) =>
    runRegion(engine, { module }, (y) => forward(y as tf.Tensor), [x]),
  selective: (engine, module, forward, x) =>
    runRegion(engine, { module, keepResultsOf: new Set([FUSED.linear]) }, (y) => forward(y as tf.Tensor), [
      x,
    ]),
  'checkpointed on the host': (engine, module, forward, x) =>
    runRegion(
      engine,
      { module, keepResultsOf: new Set([FUSED.gelu]), offload: true },
      (y) => forward(y as tf.Tensor),
      [x],
    ),
  offloaded: (engine, module, forward, x) =>
    runOffloaded(engine, module, (y) => forward(y as tf.Tensor), [x]),
};

describe('a pass that is cut off at any kernel, as an interrupted cell is', () => {
  let engine: Engine;
  before(async () => {
    engine = await testEngine();
  });

  for (const [name, part] of Object.entries(PARTS)) {
    test(`${name}: recover lets go of all that it held, and the next pass is right`, () => {
      const weights = ['a', 'b'].map((label) => tf.tensor2d(normals(DIM * DIM, label, 0.3), [DIM, DIM]));
      const bias = tf.zeros([DIM]);
      const x = tf.tensor2d(normals(ROWS * DIM, 'x'), [ROWS, DIM]);
      let collected: Float32Array[] = [];
      let loss: tf.Tensor | null = null;
      const unitOf = (module: string, tensors: readonly tf.Tensor[]): Unit => ({
        module,
        parameters: () => tensors,
        hooks: {
          beforeForward() {},
          afterForward() {},
          beforeBackward() {},
          afterBackward(found) {
            collected.push(...found.flatMap((gradient) => (gradient === null ? [] : valuesOf(gradient))));
            for (const gradient of found) gradient?.dispose();
          },
        },
      });
      const pass = (): void => {
        collected = [];
        const run = gradients(engine, () => {
          const y = weights.reduce<tf.Tensor>((h, weight, i) => {
            const layer = (z: tf.Tensor): tf.Tensor => gelu(linear(z, weight, bias));
            const inUnit = (z: tf.Tensor): tf.Tensor =>
              runUnit(engine, unitOf(`u${i}`, [weight]), (v) => part(engine, 'in', layer, v as tf.Tensor), [
                z,
              ]);
            return part(engine, 'around', inUnit, h);
          }, x);
          return tf.mean(tf.square(y));
        });
        loss = run.loss;
        run.backward();
        loss.dispose();
      };
      let kernels = 0;
      const restore = interceptKernels(() => void kernels++);
      pass();
      restore();
      const expected = collected;
      const held = () => [engine.memory.bytes, engine.host.bytes, tf.memory().numTensors];
      let enough = 5;
      for (let last = 0; last < kernels; last++) {
        // A busy machine may end it before it came so far; then it, and the next one, are given more time.
        for (let timeout = enough; timeout < 2000; timeout *= 2) {
          const rest = held();
          let ran = 0;
          let reached = false;
          const undo = interceptKernels(() => {
            reached = ran++ === last;
            // Only a timeout ends this, and no `finally` runs then.
            while (reached);
            return undefined;
          });
          assert.throws(() => runInNewContext('pass()', { pass }, { timeout }), /timed out/);
          undo();
          engine.recover();
          // It is the caller's.
          tf.dispose(loss ?? []);
          if (!reached) continue;
          enough = Math.max(5, timeout / 2);
          assert.deepEqual(held(), rest, `cut off at kernel ${last} of ${kernels}`);
          break;
        }
      }
      pass();
      assert.deepEqual(collected, expected);
      tf.dispose([...weights, bias, x]);
    });
  }
});
