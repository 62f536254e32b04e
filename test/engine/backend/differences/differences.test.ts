import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import * as tf from '../../../../src/core/tf';
import { ENGINE_CASES } from '../../../support/engines';
import { type Input, OTHER_POINTS, SMOOTH_POINTS, type SmoothPoint } from './smooth-points';

/*
 * [Note: finite differences] For a direction d of an input x, the derivative of L = sum(weights · f(x)) is sum(gradient · d). It is
 * compared with differences of L at x ± STEP d and x ± 2 STEP d, whose error is of the order STEP⁴. L is summed in float64, so that
 * only f rounds to float32. The first direction follows the gradient's signs: no terms cancel, and a factor of 1.01 shows.
 */
const STEP = 5e-3;
const TOLERANCE = 1e-3;
const NUM_DIRECTIONS = 3;

for (const engineCase of ENGINE_CASES) {
  describe(`gradients equal finite differences ${engineCase.name}`, () => {
    before(async () => {
      await engineCase.start();
    });

    for (const [name, points] of Object.entries(SMOOTH_POINTS)) {
      test(name, () => {
        const numCalls = counted(name, () => points.forEach(requireEqual));
        // An engine without a BLAS composes some operations of others.
        const isKernel = (tf.getKernel(name, 'wasm') as unknown) !== undefined;
        assert.ok(
          !isKernel || numCalls >= points.length,
          `the points call the gradient of ${name} only ${numCalls} times`,
        );
      });
    }

    for (const [name, points] of Object.entries(OTHER_POINTS)) test(name, () => points.forEach(requireEqual));
  });
}

test('every gradient of the engine has smooth points', async () => {
  await ENGINE_CASES[0]?.start();
  const names = tf.getKernelsForBackend('wasm').map(({ kernelName }) => kernelName);
  // The types of tfjs do not say that a kernel may have no gradient.
  const differentiable = names.filter((name) => (tf.getGradient(name) as unknown) !== undefined);
  assert.deepEqual(differentiable.sort(), Object.keys(SMOOTH_POINTS).sort());
});

/** Returns how often `work` calls the gradient of a kernel. */
function counted(kernelName: string, work: () => void): number {
  const config = tf.getGradient(kernelName);
  let numCalls = 0;
  const replace = (gradFunc: tf.GradFunc): void => {
    tf.unregisterGradient(kernelName);
    tf.registerGradient({ ...config, gradFunc });
  };
  replace((...given) => {
    numCalls++;
    return config.gradFunc(...given);
  });
  try {
    work();
  } finally {
    replace(config.gradFunc);
  }
  return numCalls;
}

/** Compares the gradients of all inputs of a point with finite differences. */
function requireEqual({ inputs, run }: SmoothPoint): void {
  tf.tidy(() => {
    const values = inputs.map(scattered);
    const tensors = inputs.map(({ shape }, i) => tf.tensor(values[i] ?? [], [...shape]));
    const { shape, size } = run(...tensors);
    const weights = scattered({ shape: [size], low: 0.5, high: 1.5 });
    const gradients = tf.grads((...given) => run(...given))(tensors, tf.tensor(weights, shape));
    const lossAt = (index: number, direction: readonly number[], step: number): number =>
      tf.tidy(() => {
        const moved = (values[index] ?? []).map((value, k) => value + step * (direction[k] ?? 0));
        const given = tensors.map((each, i) => (i === index ? tf.tensor(moved, each.shape) : each));
        const results = run(...given).dataSync();
        return weights.reduce((sum, weight, k) => sum + weight * (results[k] ?? Number.NaN), 0);
      });
    for (const [i, gradient] of gradients.entries()) {
      assert.deepEqual(gradient.shape, inputs[i]?.shape, `shape of gradient ${i}`);
      const slopes = Array.from(gradient.dataSync());
      for (let d = 0; d < NUM_DIRECTIONS; d++)
        requireSlope(
          slopes,
          directionOf(slopes, d),
          (direction, step) => lossAt(i, direction, step),
          `input ${i}`,
        );
    }
  });
}

function requireSlope(
  slopes: readonly number[],
  direction: readonly number[],
  lossAt: (direction: readonly number[], step: number) => number,
  what: string,
): void {
  const difference = (step: number): number =>
    (lossAt(direction, step) - lossAt(direction, -step)) / (2 * step);
  const expected = (4 * difference(STEP) - difference(2 * STEP)) / 3;
  const actual = slopes.reduce((sum, slope, k) => sum + slope * (direction[k] ?? 0), 0);
  const scale = slopes.reduce((sum, slope, k) => sum + Math.abs(slope * (direction[k] ?? 0)), 0);
  assert.ok(
    Math.abs(actual - expected) <= TOLERANCE * Math.max(scale, 0.01),
    `${what}: the gradient is ${actual} in a direction, differences ${expected}`,
  );
}

/** The first direction has the signs of the gradient; the others have signs of their own. */
function directionOf(slopes: readonly number[], number: number): number[] {
  return slopes.map((slope, k) => {
    const size = 0.5 + (((k * 7 + number * 3) % 11) + 1) / 22;
    const isPositive = number === 0 ? slope >= 0 : (k * 5 + number) % 3 !== 0;
    return isPositive ? size : -size;
  });
}

/** Scattered values of an input that are pairwise different by at least (high − low) / number of elements. */
function scattered({ shape, low, high }: Input): number[] {
  const size = shape.reduce((product, extent) => product * extent, 1);
  const stride = [37, 41, 43].find((prime) => size % prime !== 0) ?? 1;
  return Array.from({ length: size }, (_, k) => low + ((((k * stride) % size) + 0.35) / size) * (high - low));
}
