import { ConfigError } from '../core/errors';
import type { Bytes } from '../core/units';
import { type Quantity, quantity, titleOf } from './figure';
import { byteScale, inUnit, listed } from './format';
import type { RunView } from './run-view';

/** Runs under the names by which a figure compares them. */
export type Runs = Readonly<Record<string, RunView>>;

/** At least one. */
export type Cases<C> = readonly [C, ...C[]];

/** What a figure takes of each run. Throws: CONFIG without runs, or if a run has no step. */
export function casesOf<C>(runs: Runs, caseOf: (name: string, run: RunView) => C): Cases<C> {
  const [first, ...rest] = Object.entries(runs).map(([name, run]) => {
    if (run.records.length === 0) throw new ConfigError(`run ${name} has no recorded step; run a step first`);
    return caseOf(name, run);
  });
  if (first === undefined) throw new ConfigError('no runs to compare; pass an object of runs by name');
  return [first, ...rest];
}

/** The runs' different values, as worlds or strategies, in order. */
export function valuesOf<T>(runs: Runs, of: (run: RunView) => T): T[] {
  return [...new Set(Object.values(runs).map(of))];
}

/** The cases with the least and the most of something, the first of equal ones. */
export function extremes<C>([first, ...rest]: Cases<C>, of: (one: C) => number): { least: C; most: C } {
  return {
    least: rest.reduce((a, b) => (of(b) < of(a) ? b : a), first),
    most: rest.reduce((a, b) => (of(b) > of(a) ? b : a), first),
  };
}

/** The finding if a dry run is off: it comes before any other. */
export function missedFinding(
  cases: readonly { readonly name: string; readonly residual: Bytes | null }[],
): string | undefined {
  const off = cases.filter(({ residual }) => residual !== null && residual > 0);
  if (off.length === 0) return undefined;
  const most = Math.max(...off.map(({ residual }) => residual ?? 0));
  const missed = inUnit(most, byteScale(most));
  return titleOf(
    `The dry run misses ${missed} of ${listed(off.map(({ name }) => name))}`,
    `The dry run misses up to ${missed}`,
  );
}

/** What a guess about bytes on the wire may be about. */
export function wireRatio(bytes: readonly Bytes[]): Quantity {
  const [least, most] = [Math.min(...bytes), Math.max(...bytes)];
  return quantity(
    least > 0 ? most / least : 1,
    '×',
    (times) => `the most bytes received are ${times} the fewest`,
  );
}
