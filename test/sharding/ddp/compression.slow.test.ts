import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { valuesHere } from '../../support/cases';
import { launchRanks } from '../../support/launch-ranks';
import { testData } from '../../support/paths';
import type { HookName, HookResult, StepOfHook, SuiteResult } from './compression-rank';
import { gradientOf, SHAPES, STEPS } from './given-gradients';

const NAMES = Object.keys(SHAPES) as (keyof typeof SHAPES)[];
const sizeOf = (name: keyof typeof SHAPES): number =>
  SHAPES[name].reduce((product, size) => product * size, 1);
const SIZE = NAMES.reduce((sum, name) => sum + sizeOf(name), 0);
/** The bucket has the parameters in reverse order. */
const ORDER = [...NAMES].reverse();

for (const world of valuesHere([2, 3], [0])) {
  describe(`compressed gradients of ${world} ranks`, () => {
    const script = join(__dirname, 'compression-rank.js');
    const finished = launchRanks<SuiteResult>({ script, world, args: { blas: 'none' } });
    finished.catch(() => undefined); // each test that awaits it reports its failure
    const of = async (name: HookName): Promise<HookResult[]> =>
      (await finished).map((result) => result[name]);
    const stepsOf = async (name: HookName): Promise<(readonly StepOfHook[])[]> =>
      (await of(name)).map(({ steps }) => steps);

    test('PowerSGD has the gradients of torch, from the same first Q', {
      skip: world !== 2 && 'torch was recorded with 2 ranks',
    }, async () => {
      const recorded = JSON.parse(readFileSync(testData('power_sgd_reference.json'), 'utf8'));
      for (const name of ['rank 1', 'rank 2', 'without warm start', 'without error feedback'] as const) {
        for (const steps of await stepsOf(name)) {
          steps.slice(2).forEach(({ grads }, i) => {
            for (const parameter of NAMES)
              near(
                grads[parameter],
                recorded[name][i][parameter],
                2e-6,
                `${name}, step ${i + 2}, ${parameter}`,
              );
          });
        }
      }
    });

    test('all ranks have the same gradients, and nothing is left after dispose', async () => {
      for (const [name, { left }] of Object.entries((await finished)[0] ?? {})) {
        const [first, ...others] = await of(name as HookName);
        assert.equal(left, 0, name);
        for (const other of others)
          assert.deepEqual(
            other.steps.map(({ grads }) => grads),
            first?.steps.map(({ grads }) => grads),
            name,
          );
      }
    });

    test('a sum over ranks loses nothing: sent + error = gradient + previous error', async () => {
      for (const name of ['rank 1', 'rank 2', 'without warm start', 'top 20%'] as const) {
        const ranks = await stepsOf(name);
        for (let step = 0; step < STEPS; step++) {
          NAMES.forEach((parameter, number) => {
            const size = sizeOf(parameter);
            const wanted = new Float64Array(size);
            const found = new Float64Array(size);
            ranks.forEach((steps, rank) => {
              add(wanted, gradientOf(rank, step, number, size));
              add(wanted, steps[step - 1]?.errors[parameter] ?? []);
              add(found, steps[step]?.grads[parameter] ?? []);
              add(found, steps[step]?.errors[parameter] ?? []);
            });
            near([...found], [...wanted], 2e-6, `${name}, step ${step}, ${parameter}`);
          });
        }
      }
    });

    test('PowerSGD of the whole rank, and topK of all values, are the mean; topK to the bit', async () => {
      const plain = await stepsOf('none');
      const [whole, all] = [await stepsOf('whole rank'), await stepsOf('top 100%')];
      plain.forEach((steps, rank) => {
        steps.forEach(({ grads }, step) => {
          assert.deepEqual(all[rank]?.[step]?.grads, grads);
          for (const name of NAMES) near(whole[rank]?.[step]?.grads[name], grads[name], 2e-6, name);
        });
      });
    });

    for (const name of ['top 20%', 'top 20%, forgetful'] as const) {
      test(`${name}: gradients and errors are those of a sort by magnitude, to the bit`, async () => {
        const ranks = await stepsOf(name);
        let errors: readonly Float32Array[] = Array.from({ length: world }, () => new Float32Array(SIZE));
        for (let step = 0; step < STEPS; step++) {
          const sums = errors.map((error, rank) =>
            bucketOf(rank, step).map((value, i) => value + (error[i] ?? 0)),
          );
          const sent = sums.map(largest);
          const mean = new Float32Array(SIZE);
          for (const part of sent) for (const [i, value] of part) mean[i] = (mean[i] ?? 0) + value;
          const rests = sums.map((sum, rank) => sum.map((value, i) => (sent[rank]?.has(i) ? 0 : value)));
          ranks.forEach((steps, rank) => {
            const { grads, errors: stored } = steps[step] ?? assert.fail();
            assert.deepEqual(joined(grads), [...mean.map((value) => value / world)]);
            assert.deepEqual(joined(stored), name === 'top 20%' ? [...(rests[rank] ?? [])] : []);
          });
          errors = name === 'top 20%' ? rests : errors;
        }
      });
    }

    test('a rank receives the bytes of the formulas', async () => {
      const allReduced = (elements: number): number => 2 * (world - 1) * 4 * elements;
      const factors = (rank: number): number =>
        rank * (8 + 6) + rank * (5 + 7) + 7 + Math.min(6, rank * (3 + 2));
      const expected: Partial<Record<HookName, number>> = {
        none: allReduced(SIZE),
        'rank 1': allReduced(factors(1)),
        'rank 2': allReduced(factors(2)),
        'top 20%': world * (world - 1) * 8 * Math.ceil(0.2 * SIZE),
        'top 100%': world * (world - 1) * 8 * SIZE,
      };
      for (const [name, bytes] of Object.entries(expected)) {
        const ranks = await stepsOf(name as HookName);
        const total = (step: number): number =>
          ranks.reduce((sum, steps) => sum + (steps[step]?.wireBytes ?? 0), 0);
        assert.equal(total(STEPS - 1), bytes, name);
        // Until startPowerSGDIter, gradients are sent as they are.
        if (name.startsWith('rank'))
          assert.deepEqual([total(0), total(1)], [allReduced(SIZE), allReduced(SIZE)]);
      }
    });
  });
}

function bucketOf(rank: number, step: number): Float32Array {
  const parts = ORDER.map((name) => gradientOf(rank, step, NAMES.indexOf(name), sizeOf(name)));
  return Float32Array.from(parts.flatMap((part) => [...part]));
}

const joined = (byName: StepOfHook['grads']): number[] => ORDER.flatMap((name) => [...(byName[name] ?? [])]);

/** Returns the values that are sent, by index. */
function largest(values: Float32Array): Map<number, number> {
  const order = [...values.keys()].sort(
    (i, j) => Math.abs(values[j] ?? 0) - Math.abs(values[i] ?? 0) || i - j,
  );
  return new Map(order.slice(0, Math.ceil(0.2 * values.length)).map((i) => [i, values[i] ?? 0]));
}

function add(sum: Float64Array, values: ArrayLike<number>): void {
  for (let i = 0; i < values.length; i++) sum[i] = (sum[i] ?? 0) + (values[i] ?? 0);
}

function near(
  found: readonly number[] | undefined,
  wanted: readonly number[] | undefined,
  within: number,
  what: string,
): void {
  assert.equal(found?.length, wanted?.length, what);
  found?.forEach((value, i) => {
    const bound = within * Math.max(1, Math.abs(wanted?.[i] ?? 0));
    assert.ok(
      Math.abs(value - (wanted?.[i] ?? Number.NaN)) <= bound,
      `${what}[${i}]: ${value}, not ${wanted?.[i]}`,
    );
  });
}
