import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import * as tf from '../../../../src/core/tf';
import type { Engine } from '../../../../src/engine/backend/engine';
import { valuesHere } from '../../../support/cases';
import { assertClose } from '../../../support/close';
import { onBothBackends } from '../../../support/cpu-reference';
import { ENGINE_CASES } from '../../../support/engines';
import { CPU_CALLS, WITHOUT_VALUES } from './cpu-calls';
import { differenceIn, readRows } from './rows';

for (const engineCase of valuesHere(ENGINE_CASES, [0])) {
  describe(`kernels that torch does not have, ${engineCase.name}`, () => {
    let engine: Engine;
    before(async () => {
      engine = await engineCase.start();
    });

    for (const [name, call] of Object.entries(CPU_CALLS)) {
      test(`${name} has the values of tfjs's JavaScript backend`, async () => {
        const held = engine.memory.bytes;
        const { expected, actual } = await onBothBackends(call);
        assert.equal(actual.length, expected.length);
        for (const [i, values] of actual.entries()) assertSame(values, expected[i] ?? [], `result ${i}`);
        assert.equal(engine.memory.bytes, held);
      });
    }

    test('every kernel has rows of torch or a call here', () => {
      const seen = new Set<string>(WITHOUT_VALUES);
      for (const config of tf.getKernelsForBackend('wasm')) {
        tf.unregisterKernel(config.kernelName, 'wasm');
        const kernelFunc: tf.KernelFunc = (given) => {
          seen.add(config.kernelName);
          return config.kernelFunc(given);
        };
        tf.registerKernel({ ...config, kernelFunc });
      }
      // Rows with ramps are long.
      for (const row of readRows())
        if (row.in.every(({ s }) => s.reduce((a, b) => a * b, 1) < 5000)) differenceIn(row);
      for (const call of Object.values(CPU_CALLS)) tf.tidy(() => void call());
      const names = tf.getKernelsForBackend('wasm').map(({ kernelName }) => kernelName);
      assert.deepEqual(
        names.filter((name) => !seen.has(name)),
        [],
        'write rows for these in test/data/edges, or calls in cpu-calls.ts',
      );
    });
  });
}

/** Compares numbers, NaN and infinities. */
function assertSame(actual: Float32Array, expected: ArrayLike<number>, what: string): void {
  assert.equal(actual.length, expected.length, what);
  const kindOf = (value: number): number | string => (Number.isFinite(value) ? 'finite' : value);
  assert.deepEqual(Array.from(actual, kindOf), Array.from(expected, kindOf), what);
  const finite = (values: ArrayLike<number>): number[] => Array.from(values).filter(Number.isFinite);
  assertClose(finite(actual), finite(expected), 1e-5, what);
}
