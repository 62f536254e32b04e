import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import {
  AMPLIFIED_BOUND,
  type Comparison,
  compareStates,
  RELATIVE_BOUND,
  ZERO_BY_THEORY_BOUND,
} from './compare-states';
import { type EpsName, type FinishedRun, torchLosses } from './parity-runs';
import { readStep } from './state-dump';

/** Compares with the recorded losses of torch's ranks, within the bound for the rounding of two implementations. */
export function requireTorchLosses(finished: FinishedRun, world: number, t: TestContext): void {
  const expected = torchLosses(world);
  let worst = 0;
  for (const { losses } of finished.results) {
    assert.equal(losses.length, stepsOf(finished));
    losses.forEach((loss, step) => {
      const difference = Math.abs(loss - (expected[step] ?? Number.NaN));
      assert.ok(difference <= 2e-4, `step ${step}: loss ${loss}, torch ${expected[step]}`);
      worst = Math.max(worst, difference);
    });
  }
  t.diagnostic(`losses differ from torch's by at most ${worst.toExponential(1)} of 2.0e-4`);
}

/** Compares losses, gradients before clipping and their norm at every step with one process that has the same parameters. */
export function requireSameGradients(finished: FinishedRun, single: FinishedRun, t: TestContext): void {
  const [expected] = single.results;
  assert.ok(expected);
  for (const { losses, gradNorms } of finished.results) {
    for (let step = 0; step < stepsOf(finished); step++) {
      requireClose(losses[step], expected.losses[step], `loss of step ${step}`);
      requireClose(gradNorms[step], expected.gradNorms[step], `gradient norm of step ${step}`);
    }
  }
  requireWithin(finished, single, t, ({ relative, zeroByTheory }) => [
    { what: 'gradients', bound: RELATIVE_BOUND, ...relative.grad },
    { what: "keys' bias gradients", bound: ZERO_BY_THEORY_BOUND, ...zeroByTheory.grad },
  ]);
}

/** Compares parameters and AdamW's moments at every step with one process that trained by itself. */
export function requireSameStates(
  finished: FinishedRun,
  single: FinishedRun,
  eps: EpsName,
  t: TestContext,
): void {
  const fields = ['values', 'expAvg', 'expAvgSq'] as const;
  requireWithin(finished, single, t, ({ relative, zeroByTheory, absolute }) =>
    fields.flatMap((field) =>
      eps === 'torch'
        ? [{ what: field, bound: AMPLIFIED_BOUND, ...absolute[field] }]
        : [
            { what: field, bound: RELATIVE_BOUND, ...relative[field] },
            { what: `keys' bias ${field}`, bound: ZERO_BY_THEORY_BOUND, ...zeroByTheory[field] },
          ],
    ),
  );
}

interface Bounded {
  readonly what: string;
  readonly value: number;
  readonly where: string;
  readonly bound: number;
}

function requireWithin(
  finished: FinishedRun,
  single: FinishedRun,
  t: TestContext,
  bounds: (comparison: Comparison) => Bounded[],
): void {
  const worst = new Map<string, number>();
  for (let step = 0; step < stepsOf(finished); step++) {
    for (const { what, value, where, bound } of bounds(compared(finished, single, step))) {
      assert.ok(value <= bound, `step ${step}: ${what} differ by ${value} > ${bound} in ${where}`);
      worst.set(what, Math.max(worst.get(what) ?? 0, value));
    }
  }
  t.diagnostic(
    `largest differences: ${[...worst].map(([what, value]) => `${what} ${value.toExponential(1)}`).join(', ')}`,
  );
}

const comparisons = new Map<string, Comparison>();

/** The differences after a step, computed once because gradients and states of the same pair are read. */
function compared({ run, world }: FinishedRun, single: FinishedRun, step: number): Comparison {
  const key = [run.folder, single.run.folder, step].join('\0');
  const known = comparisons.get(key);
  if (known !== undefined) return known;
  const found = compareStates(readStep(run.folder, world, step), readStep(single.run.folder, 1, step));
  comparisons.set(key, found);
  return found;
}

function stepsOf({ run }: FinishedRun): number {
  return run.config.steps ?? 0;
}

function requireClose(actual = Number.NaN, expected = Number.NaN, what = ''): void {
  assert.ok(
    Math.abs(actual - expected) <= RELATIVE_BOUND * Math.abs(expected),
    `${what}: ${actual}, one process has ${expected}`,
  );
}
