import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { runInNewContext } from 'node:vm';
import { withGradients } from '../../../src/core/custom-gradient';
import * as tf from '../../../src/core/tf';
import { noteExchange } from '../../../src/engine/autograd/exchanges';
import { runOffloaded } from '../../../src/engine/autograd/offloaded';
import { runRegion } from '../../../src/engine/autograd/region';
import { gradients, runUnit, type Unit } from '../../../src/engine/autograd/unit';
import type { Engine } from '../../../src/engine/backend/engine';
import { FUSED } from '../../../src/engine/backend/fused/fused-kernel';
import { gelu, linear } from '../../../src/engine/backend/ops';
import { interceptKernels } from '../../../src/engine/backend/tfjs-state';
import { normals, valuesOf } from '../../support/close';
import { testEngine } from '../../support/wasm-test-engine';

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
  'beside an exchange': (_engine, _name, forward, x) => forward(exchanged(x)),
};

/** Returns x; its gradient passes through an exchange that has no other rank. */
function exchanged(x: tf.Tensor): tf.Tensor {
  const y = withGradients([x], () => ({ value: tf.clone(x), gradients: (dy) => [tf.clone(dy)] }));
  noteExchange(y, (dy) => ({ result: tf.add(dy, 0), wait: () => void tf.dispose(tf.relu(dy)) }));
  return y;
}

describe('recovery from a pass that is cut off at any kernel, as in an interrupted cell', () => {
  let engine: Engine;
  before(async () => {
    engine = await testEngine();
  });

  for (const [name, part] of Object.entries(PARTS)) {
    test(`${name}: recover frees all that the pass held, and the next pass is correct`, () => {
      const weights = ['a', 'b'].map((label) => tf.tensor2d(normals(DIM * DIM, label, 0.3), [DIM, DIM]));
      const bias = tf.zeros([DIM]);
      const x = tf.tensor2d(normals(ROWS * DIM, 'x'), [ROWS, DIM]);
      let collected: Float32Array[] = [];
      let loss: tf.Tensor | null = null;
      const unitOf = (module: string, tensors: readonly tf.Tensor[]): Unit => ({
        module,
        parameters: () => tensors,
        hooks: {
          preForward() {},
          postForward() {},
          preBackward() {},
          postBackward(found) {
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
      for (let last = 0; last < kernels; last++) {
        const rest = held();
        let ran = 0;
        const undo = interceptKernels(() => {
          if (ran++ !== last) return undefined;
          // A signal, not a time limit: on a busy machine a time limit would end the pass anywhere, even within malloc.
          process.kill(process.pid, 'SIGINT');
          for (;;); // No `finally` runs when the pass ends here.
        });
        const options = { breakOnSigint: true };
        assert.throws(() => runInNewContext('pass()', { pass }, options), {
          code: 'ERR_SCRIPT_EXECUTION_INTERRUPTED',
        });
        undo();
        engine.recover();
        // The tensor belongs to the caller.
        tf.dispose(loss ?? []);
        assert.deepEqual(held(), rest, `cut off at kernel ${last} of ${kernels}`);
      }
      pass();
      assert.deepEqual(collected, expected);
      tf.dispose([...weights, bias, x]);
    });
  }
});
