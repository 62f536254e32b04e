import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import type { MemoryCause } from '../../../src/core/events';
import * as tf from '../../../src/core/tf';
import { gradients, runUnit } from '../../../src/engine/autograd/unit';
import type { Engine } from '../../../src/engine/backend/engine';
import {
  type FlashSizes,
  flashScratchSize,
  flashSizes,
} from '../../../src/engine/backend/fused/flash-attention';
import { type FlashAttention, flashAttention } from '../../../src/engine/backend/ops';
import { plainFlashAttention } from '../../../src/engine/backend/plain-ops';
import { assertClose, normals, valuesOf } from '../../support/close';
import { ENGINE_CASES } from '../../support/engines';

interface Case extends Omit<FlashSizes, 'rows' | 'columns'> {
  readonly causal: boolean;
}

const [SHORT, SEQ] = [5, 130];

// Lengths below, at and above block sizes; widths that are and are not multiples of the four SIMD lanes.
const CASES: readonly Case[] = [
  { batch: 2, queries: SHORT, keys: SHORT, heads: 2, groups: 2, headDim: 3, causal: true },
  { batch: 1, queries: 1, keys: 1, heads: 1, groups: 1, headDim: 1, causal: true },
  { batch: 1, queries: 128, keys: 256, heads: 1, groups: 1, headDim: 4, causal: true },
  { batch: 2, queries: SEQ, keys: SEQ, heads: 3, groups: 3, headDim: 5, causal: true },
  { batch: 1, queries: 300, keys: 700, heads: 4, groups: 2, headDim: 16, causal: true },
  { batch: 1, queries: 300, keys: 700, heads: 4, groups: 1, headDim: 6, causal: false },
  { batch: 2, queries: SEQ, keys: SHORT, heads: 2, groups: 2, headDim: 8, causal: false },
];

type Inputs = readonly [tf.Tensor, tf.Tensor, tf.Tensor];

function inputsOf({ batch, queries, keys, heads, groups, headDim }: Case): Inputs {
  const make = (name: string, ...shape: number[]): tf.Tensor =>
    tf.tensor(
      normals(
        shape.reduce((a, b) => a * b, 1),
        name,
      ),
      shape,
    );
  return [
    make('q', batch, queries, heads, headDim),
    make('k', batch, keys, groups, headDim),
    make('v', batch, keys, groups, headDim),
  ];
}

/** A number that depends on both outputs. */
function weighted({ out, lse }: FlashAttention): tf.Tensor {
  const weights = (x: tf.Tensor, name: string): tf.Tensor => tf.tensor(normals(x.size, name), x.shape);
  return tf.add(
    tf.sum(tf.mul(out, weights(out, 'weights'))),
    tf.sum(tf.mul(lse, weights(lse, 'lse weights'))),
  );
}

/** Both outputs and the gradients of all inputs. */
function valuesAndGradients(op: (...inputs: Inputs) => FlashAttention, inputs: Inputs): Float32Array[] {
  const { out, lse } = op(...inputs);
  const grads = tf.grads((q, k, v) => weighted(op(q as tf.Tensor, k as tf.Tensor, v as tf.Tensor)));
  return [out, lse, ...grads([...inputs])].map(valuesOf);
}

/** A buffer that was allocated, and its tag. */
interface Made {
  readonly bytes: number;
  readonly cause: MemoryCause;
}

/** Memory use of a forward and backward: the peak of additional bytes, and all allocated buffers. */
interface MemoryUse {
  readonly peak: number;
  readonly made: readonly Made[];
}

/** Runs forward and backward as a unit does. */
function memoryOf(engine: Engine, shape: Case): MemoryUse {
  const parameters = inputsOf(shape);
  const held = engine.memory.bytes;
  const made: Made[] = [];
  let peak = 0;
  engine.observe({
    allocated: (_, bytes, _dtype, { cause }) => {
      made.push({ bytes, cause });
      peak = Math.max(peak, engine.memory.bytes - held);
    },
    retagged() {},
    freed() {},
    collective() {},
    span() {},
  });
  made.length = 0;
  peak = 0;
  const hooks = {
    preForward() {},
    postForward() {},
    preBackward() {},
    postBackward: (found: readonly (tf.Tensor | null)[]) =>
      tf.dispose(found.filter((gradient) => gradient !== null)),
  };
  const unit = { hooks, parameters: () => parameters, module: 'unit' };
  const root = (): tf.Tensor => {
    const { out, lse } = flashAttention(...parameters, { causal: shape.causal });
    lse.dispose();
    return tf.sum(out);
  };
  const pass = gradients(engine, () => runUnit(engine, unit, root, []));
  pass.backward();
  tf.dispose([pass.loss, ...parameters]);
  return { peak, made: [...made] };
}

for (const engineCase of ENGINE_CASES) {
  describe(`flash attention ${engineCase.name}`, () => {
    let engine: Engine;
    before(async () => {
      engine = await engineCase.start();
    });

    for (const shape of CASES) {
      test(`equals attention with all weights in values and gradients: ${JSON.stringify(shape)}`, () => {
        const held = engine.memory.bytes;
        tf.tidy(() => {
          const inputs = inputsOf(shape);
          const { causal } = shape;
          const scale = 0.4;
          const expected = valuesAndGradients((...x) => plainFlashAttention(...x, causal, scale), inputs);
          const actual = valuesAndGradients((...x) => flashAttention(...x, { causal, scale }), inputs);
          for (const [i, what] of ['out', 'lse', 'dq', 'dk', 'dv'].entries())
            assertClose(actual[i] ?? [], expected[i] ?? [], 1e-5, what);
        });
        assert.equal(engine.memory.bytes, held);
      });
    }

    test('flash attention is exact for large scores', () => {
      tf.tidy(() => {
        const [q, k, v] = inputsOf({ ...(CASES[3] as Case), batch: 1 });
        const large = [tf.mul(q, 40), tf.mul(k, 40), v] as const;
        const { out, lse } = flashAttention(...large, { causal: true });
        const expected = plainFlashAttention(...large, true, 1 / Math.sqrt(5));
        assertClose(valuesOf(out), valuesOf(expected.out), 1e-3, 'out');
        assertClose(valuesOf(lse), valuesOf(expected.lse), 1e-5, 'lse');
      });
    });

    test('memory grows linearly with the length, and the size of the temporary buffer does not depend on it', () => {
      const shape = (seq: number): Case => ({ ...(CASES[4] as Case), queries: seq, keys: seq });
      const [half, whole, twice] = [256, 512, 1024].map((seq) => memoryOf(engine, shape(seq))) as [
        MemoryUse,
        MemoryUse,
        MemoryUse,
      ];
      assert.equal(twice.peak - whole.peak, 2 * (whole.peak - half.peak));
      assert.ok(twice.made.every(({ bytes }) => bytes < 4 * 1024 * 1024));
      const { heads, groups, headDim } = shape(1024);
      const sizes = flashSizes({ shape: [1, 1024, heads, headDim] }, { shape: [1, 1024, groups, headDim] });
      for (const pass of ['forward', 'backward'] as const) {
        const bytes = 4 * flashScratchSize(pass, sizes);
        for (const made of [whole.made, twice.made]) {
          const temporary = made.filter((one) => one.cause === 'temp' && one.bytes === bytes);
          assert.equal(temporary.length, 1, pass);
        }
      }
    });

    test('shapes that do not fit are an error that shows them', () => {
      tf.tidy(() => {
        const [q, k] = [tf.zeros([1, 4, 3, 2]), tf.zeros([1, 3, 2, 2])];
        assert.throws(
          () => flashAttention(q, k, k, { causal: false }),
          /flashAttention by 0\.7.*: q float32 \[1,4,3,2\]/,
        );
        assert.throws(() => flashAttention(q, tf.zeros([1, 3, 3, 2]), k, { causal: true }), {
          code: 'SHAPE',
        });
      });
    });
  });
}
