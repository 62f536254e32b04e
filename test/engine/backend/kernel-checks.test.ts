import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import fc from 'fast-check';
import { ShardlabError } from '../../../src/core/errors';
import * as tf from '../../../src/core/tf';
import { CHECKS, UNCHECKED } from '../../../src/engine/backend/checks/kernel-checks';
import type { Engine } from '../../../src/engine/backend/engine';
import { ENGINE_CASES } from '../../support/engines';
import { GuardedHeap } from '../../support/guarded-heap';
import { type KernelArguments, TRUSTED_NUMBERS, type TrustedNumber } from './kernel-calls';

const RUNS = { numRuns: 12, seed: 10 };
const INT32 = { min: -(2 ** 31), max: 2 ** 31 - 1 };
/** Kernels that run in JavaScript on its own arrays. */
const ON_STRINGS = ['BroadcastArgs', 'StringNGrams', 'StringSplit', 'StringToHashBucketFast'];

/** Numbers that must be refused. */
function outside({ low, high, from }: TrustedNumber): fc.Arbitrary<number> {
  if (from === 'fraction')
    return fc.constantFrom(Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY);
  if (from === 'shape') return fc.integer({ min: 2, max: 9 }).filter((value) => value < low || value > high);
  const sides = [fc.integer({ min: low - 9, max: low - 1 }), fc.integer({ min: INT32.min, max: low - 1 })];
  if (high < Number.POSITIVE_INFINITY) {
    sides.push(fc.integer({ min: high + 1, max: high + 9 }), fc.integer({ min: high + 1, max: INT32.max }));
  }
  if (from === 'tensor') return fc.oneof(...sides);
  return fc.oneof(
    ...sides,
    fc.constantFrom(Number.NaN, 2 ** 32 + 1, -(2 ** 40), low + 0.5, Number.POSITIVE_INFINITY),
  );
}

function runKernel(name: string, { inputs, attrs = {} }: KernelArguments): tf.Tensor[] {
  // tfjs's types do not include lists and attributes of every kind.
  const outputs = tf.engine().runKernel(name, inputs as tf.NamedTensorMap, attrs as tf.NamedAttrMap);
  return [outputs as tf.Tensor | tf.Tensor[]].flat();
}

for (const engineCase of ENGINE_CASES) {
  describe(`checked kernels ${engineCase.name}`, () => {
    let engine: Engine;
    let heap: GuardedHeap;
    before(async () => {
      engine = await engineCase.start();
      heap = new GuardedHeap();
    });
    const kernels = (): string[] =>
      tf
        .getKernelsForBackend('wasm')
        .map(({ kernelName }) => kernelName)
        .filter((name) => !name.startsWith('TrapsInTest'));

    test('every registered kernel is in the tables of checks', () => {
      const names = kernels();
      assert.deepEqual(
        names.filter((name) => !(name in CHECKS || UNCHECKED.has(name))),
        [],
        'enter these in src/engine/backend/checks/kernel-checks.ts',
      );
      assert.deepEqual(
        names.filter((name) => name in CHECKS && !(name in TRUSTED_NUMBERS)),
        [],
        'enter these in test/engine/backend/kernel-calls.ts',
      );
      assert.deepEqual(
        Object.keys(TRUSTED_NUMBERS).filter(
          (name) => !names.includes(name) && !name.startsWith('ShardlabCausalAttention'),
        ),
        [],
      );
    });

    for (const [name, numbers] of Object.entries(TRUSTED_NUMBERS)) {
      test(`${name} refuses numbers out of range and does not touch memory`, () => {
        if (!kernels().includes(name)) return; // without a BLAS, attention consists of other kernels
        for (const number of numbers) {
          const held = engine.memory.bytes;
          tf.tidy(() => void runKernel(name, number.call(number.low)));
          tf.tidy(() => void runKernel(name, number.call(Math.min(number.high, number.low + 9))));
          fc.assert(
            fc.property(outside(number), (value) => {
              tf.tidy(() => {
                const call = number.call(value);
                assert.throws(
                  () => runKernel(name, call),
                  (error) => error instanceof ShardlabError && error.code === 'SHAPE',
                  `${value} was taken`,
                );
                assert.equal(heap.damage, 0);
              });
            }),
            RUNS,
          );
          assert.equal(engine.memory.bytes, held);
          assert.equal(engine.damage, undefined);
        }
      });
    }

    for (const dtype of ['float32', 'int32', 'bool'] as const) {
      test(`elementwise kernels either read ${dtype} correctly or refuse it`, () => {
        const names = kernels().filter(
          (name) => !(name in CHECKS) && !(name in TRUSTED_NUMBERS) && !ON_STRINGS.includes(name),
        );
        assert.ok(names.length > 50);
        for (const name of names) {
          const results = [0x5a, 0x11].map((byte) =>
            heap.filledWith(byte, () => elementwise(name, dtype, heap)),
          );
          assert.equal(results[0], results[1], `${name} of ${dtype} depends on what lies beside its input`);
        }
      });
    }
  });
}

/** The results of a kernel as text, or a text that says it refuses the type. */
function elementwise(name: string, dtype: 'float32' | 'int32' | 'bool', heap: GuardedHeap): string {
  return tf.tidy(() => {
    const x = tf.tensor([1, 0, 1, 1, 0, 1, 1], [7], dtype);
    const y = tf.tensor([1, 1, 1, 0, 1, 1, 1], [7], dtype);
    const attrs = { alpha: 0.5, clipValueMin: 0, clipValueMax: 1, dtype: 'float32' };
    try {
      const outputs = runKernel(name, { inputs: { x, a: x, b: y }, attrs });
      assert.equal(heap.damage, 0, `${name} of ${dtype} writes over its neighbours`);
      return outputs.map((output) => `${output.dtype} ${output.dataSync().join()}`).join();
    } catch (error) {
      if (error instanceof ShardlabError && error.code === 'SHAPE') return 'refused';
      throw error;
    }
  });
}
