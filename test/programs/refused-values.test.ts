import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { settingAt } from '../../src/config/setting-table';
import { checkTrainConfig } from '../../src/config/train-config';
import { assemble, withModel } from '../../src/programs/assemble';
import { dialects } from '../../src/programs/registry/registry';
import type { KeyTable } from '../../src/programs/rows/key-row';
import { type Dialect, type LocatedKey, meantBy } from '../../src/programs/rows/meant';

/** Values of every kind, of which each key takes only some. */
const VALUES: readonly unknown[] = [
  ...[true, false, null, 0, 1, 2, 3, 7, -1, 0.5, 1.5, 1e-5, 1e9, '', 'x', 'no', 'auto', 'none', '1', '-1'],
  ...['bf16', 'fp16', 'fp8', 'float32', 'FULL_SHARD', 'HYBRID_SHARD', 'zero3', 'cpu', 'adamw', 'sgd', 'lion'],
  ...['cosine', 'linear', 'WSD', 'full', 'selective', 'ring', 'all-linear', 'wte', '1f1b', 'llama3-8b'],
  ...[[], [1, 2], [0.9, 0.999], ['q_proj'], ['embed_tokens'], { modules: ['x'] }],
];

/** Returns the paths of all keys of a table that can have an effect, with their sections. */
function pathsOf(table: KeyTable): readonly (readonly string[])[] {
  return Object.entries(table).flatMap(([key, { effect, parts }]) =>
    parts === undefined ? (effect === 'none' ? [] : [[key]]) : pathsOf(parts).map((path) => [key, ...path]),
  );
}

function entryOf(path: readonly string[], value: unknown, line: number): LocatedKey {
  return { file: 'file', line, key: path.join('.'), path, value };
}

/** Returns the lines that a reading calls used or planned although the config's check refuses what they set. */
function wronglyUsed(dialect: Dialect, entries: readonly LocatedKey[]): readonly string[] {
  const meant = meantBy({ dialect, entries });
  if (meant.every(({ meaning: { sets, usual } }) => sets === undefined && usual === undefined)) return [];
  const { config, lines } = assemble(meant);
  const checked = checkTrainConfig(withModel(config));
  if ('config' in checked) return [];
  return lines.flatMap(({ effect, key, value }, index) => {
    const { sets = {}, usual = {} } = meant[index]?.meaning ?? {};
    // A line that another line replaces sets nothing.
    const paths = Object.entries({ ...usual, ...sets }).flatMap(([path, given]) =>
      JSON.stringify(settingAt(config, path)) === JSON.stringify(given) ? [path] : [],
    );
    const issue = checked.issues.find(({ path }) => {
      const at = path.join('.');
      return paths.some((one) => one === at || at.startsWith(`${one}.`));
    });
    if (issue === undefined || (effect !== 'used' && effect !== 'planned')) return [];
    return [
      `${dialect.name}: ${key} ${JSON.stringify(value)} is ${effect}, but ${issue.path.join('.')}: ${issue.message}`,
    ];
  });
}

test('no key with a value that a run refuses is read as used', () => {
  const wrong = new Set<string>();
  let count = 0;
  for (const dialect of dialects()) {
    for (const path of pathsOf(dialect.keys)) {
      for (const value of VALUES) {
        for (const text of wronglyUsed(dialect, [entryOf(path, value, 1)])) wrong.add(text);
        count++;
      }
    }
  }
  assert.deepEqual([...wrong], []);
  assert.ok(count > 50_000, `${count} lines were read`);
});

test('no key is read as used if it contradicts other keys so that a run refuses them', () => {
  for (const dialect of dialects()) {
    const paths = pathsOf(dialect.keys);
    const settings = paths.filter((path) => VALUES.some((value) => setsSomething(dialect, path, value)));
    if (settings.length === 0) continue;
    const line = fc.tuple(fc.constantFrom(...settings), fc.constantFrom(...VALUES));
    fc.assert(
      fc.property(fc.array(line, { minLength: 2, maxLength: 6 }), (drawn) => {
        const entries = drawn.map(([path, value], index) => entryOf(path, value, index + 1));
        assert.deepEqual(wronglyUsed(dialect, entries), []);
      }),
      { seed: 7, numRuns: 150 },
    );
  }
});

function setsSomething(dialect: Dialect, path: readonly string[], value: unknown): boolean {
  const [one] = meantBy({ dialect, entries: [entryOf(path, value, 1)] }).slice(-1);
  return Object.keys(one?.meaning.sets ?? {}).length > 0;
}
