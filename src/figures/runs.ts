import { type Bytes, ConfigError, listed } from '../core';
import { type Quantity, quantity, type Title } from './figure';
import { byteScale, counted, inUnit, quoted } from './format';
import type { RunView } from './run-view';
import type { StepTimes } from './step-times';

/** Runs to compare, by the names that a figure shows. */
export type Runs = Readonly<Record<string, RunView>>;

/** A non-empty list. */
export type Cases<C> = readonly [C, ...C[]];

/**
 * Returns the case of each run, as `caseOf` makes it; a case has the numbers of a run that a figure needs. Throws: CONFIG
 * without runs, or if a run has no step.
 */
export function casesOf<C>(runs: Runs, caseOf: (name: string, run: RunView) => C): Cases<C> {
  const [first, ...rest] = Object.entries(runs).map(([name, run]) => {
    if (run.records.length === 0) throw new ConfigError(`run ${name} has no recorded step; run a step first`);
    return caseOf(name, run);
  });
  if (first === undefined) throw new ConfigError('no runs to compare; pass an object of runs by name');
  return [first, ...rest];
}

/** Returns the different results of `of` (such as worlds or strategies) for the runs, in the runs' order. */
export function valuesOf<T>(runs: Runs, of: (run: RunView) => T): T[] {
  return [...new Set(Object.values(runs).map(of))];
}

/** Returns the runs' worlds, as '2 ranks, 4 ranks'. */
export function worldsText(runs: Runs): string {
  return valuesOf(runs, ({ world }) => counted(world, 'rank')).join(', ');
}

/** Returns over how many steps the runs' medians are: '10 steps', '4–10 steps'. */
export function stepsText(cases: readonly { readonly times: StepTimes }[]): string {
  const counts = cases.map(({ times }) => times.numSteps);
  const [fewest, most] = [Math.min(...counts), Math.max(...counts)];
  return fewest === most ? counted(most, 'step') : `${fewest}–${most} steps`;
}

/** Returns the cases for which `of` is least and greatest; of cases with equal values, the first. */
export function extremes<C>([first, ...rest]: Cases<C>, of: (item: C) => number): { least: C; most: C } {
  return {
    least: rest.reduce((a, b) => (of(b) < of(a) ? b : a), first),
    most: rest.reduce((a, b) => (of(b) > of(a) ? b : a), first),
  };
}

/**
 * Says by how many bytes dry runs differ from the measurements; undefined if no dry run differs. Figures prefer this finding to
 * all other findings.
 */
export function missedFinding(
  cases: readonly { readonly name: string; readonly residual: Bytes | null }[],
): Title | undefined {
  const off = cases.filter(({ residual }) => residual !== null && residual > 0);
  if (off.length === 0) return undefined;
  const most = Math.max(...off.map(({ residual }) => residual ?? 0));
  const missed = inUnit(most, byteScale(most));
  return [
    `The dry run is wrong by ${missed} for ${listed(off.map(({ name }) => quoted(name)))}`,
    `The dry run is wrong by up to ${missed}`,
  ];
}

/** Returns the ratio of the most to the fewest bytes on the wire, as a number that a reader may guess. */
export function wireRatio(bytes: readonly Bytes[]): Quantity {
  const [least, most] = [Math.min(...bytes), Math.max(...bytes)];
  return quantity(
    least > 0 ? most / least : 1,
    '×',
    (times) =>
      `the run that receives the most bytes receives ${times} as many as the run that receives the fewest`,
  );
}
