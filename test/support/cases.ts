import assert from 'node:assert/strict';

/**
 * Whether this run has every case of its files. `npm test` has one or a few cases of each kind, which the files name beside the
 * list of all; `npm run test:long`, and a file that `node --test` runs by itself, have all.
 */
export const HAS_ALL_CASES = process.env.SHARDLAB_TEST_CASES !== 'some';

/** The cases that this run has: all, or in `npm test` those that `names` has. */
export function casesHere<K extends string, T>(
  cases: Readonly<Record<K, T>>,
  names: readonly NoInfer<K>[],
): Readonly<Record<string, T>> {
  const missing = names.filter((name) => !(name in cases));
  assert.deepEqual(missing, [], 'no cases have these names');
  return HAS_ALL_CASES ? cases : Object.fromEntries(names.map((name) => [name, cases[name]]));
}

/** The same for a map. */
export function mapHere<T>(cases: ReadonlyMap<string, T>, names: readonly string[]): ReadonlyMap<string, T> {
  const byName: Readonly<Record<string, T>> = Object.fromEntries(cases);
  return new Map(Object.entries(casesHere(byName, names)));
}

/** The values that this run has: all, or in `npm test` those at `indices`. */
export function valuesHere<T>(all: readonly T[], indices: readonly number[]): readonly T[] {
  return HAS_ALL_CASES ? all : indices.map((i) => all[i] ?? assert.fail(`there is no value ${i}`));
}
