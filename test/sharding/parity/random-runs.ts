import assert from 'node:assert/strict';
import { relativeDistance } from '../../support/close';
import { type RandomResult, type RandomRun, trainRandom } from './random-rank';

/** Sums of the same terms in another order, over two steps with an eps of 1e-3. */
const BOUND = 2e-5;
/** A tensor with values near zero has rounding noise of the whole model's size. */
const NOISE = 1e-7;

/** Trains random models under random settings on `world` ranks, and each of them in one process; by seed. */
export async function finishSeeds(
  world: number,
  seeds: readonly number[],
): Promise<
  ReadonlyMap<number, { readonly together: readonly RandomResult[]; readonly alone: RandomResult }>
> {
  const runs = seeds.map((seed): RandomRun => ({ seed, world, alone: false }));
  const together = await trainRandom(world, runs);
  const [alone = []] = await trainRandom(
    1,
    runs.map((run) => ({ ...run, alone: true })),
  );
  return new Map(
    seeds.map((seed, i) => {
      const single = alone[i];
      assert.ok(single);
      return [seed, { together: together.flatMap((results) => results[i] ?? []), alone: single }];
    }),
  );
}

/** Compares losses, norms, parameters and optimizer states of all ranks with one process. */
export function requireSame(together: readonly RandomResult[], alone: RandomResult): void {
  for (const { losses, gradNorms, left } of together) {
    requireNumbers(losses, alone.losses, 'losses');
    requireNumbers(gradNorms, alone.gradNorms, 'norms of the gradients');
    assert.equal(left, 0, 'bytes are left behind');
  }
  const names = (results: readonly RandomResult[]): string[] =>
    [...new Set(results.flatMap(({ parts }) => parts.map(({ name }) => name)))].sort();
  assert.deepEqual(names(together), names([alone]));
  for (const { name, values } of alone.parts) {
    const whole = new Array<number>(values.length).fill(Number.NaN);
    for (const { parts } of together) {
      for (const part of parts.filter((other) => other.name === name)) {
        whole.splice(part.start, part.values.length, ...part.values);
      }
    }
    const size = Math.hypot(...values);
    const difference = relativeDistance(whole, values) * (size || 1);
    const allowed = BOUND * size + NOISE * Math.sqrt(values.length);
    assert.ok(difference <= allowed, `${name} differ by ${difference}, ${allowed} is allowed`);
  }
}

function requireNumbers(actual: readonly number[], expected: readonly number[], what: string): void {
  expected.forEach((value, i) => {
    const other = actual[i] ?? Number.NaN;
    assert.ok(
      Math.abs(other - value) <= BOUND * Math.abs(value) + NOISE,
      `${what} of step ${i + 1}: ${other}, one process ${value}`,
    );
  });
}
