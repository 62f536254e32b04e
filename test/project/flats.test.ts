import assert from 'node:assert/strict';
import { test } from 'node:test';
import { doorNames, flatFacts } from './flats';
import { FLATS, importsOf, isDoor } from './layers';
import { readFiles, readSources } from './sources';

/** The most values that a door may export. A door that is wider today may not become wider still. */
const WIDEST = 25;
const WIDER: Readonly<Record<string, number>> = {
  core: 68,
  config: 177,
  engine: 65,
  wire: 31,
  nn: 62,
  sharding: 69,
  training: 53,
  ledger: 28,
  planner: 81,
  cell: 51,
  programs: 27,
  launch: 38,
};

/** The most lines of a flat. */
const MOST_LINES = 45_000;

const sources = readSources('src', 'kernel', 'site/planner');
const facts = flatFacts(sources, [...FLATS, 'kernel']);

test('lines, files, doors and imports of each flat are reported', (context) => {
  const rows = facts.map(
    (one) =>
      `${one.flat.padEnd(9)}${`${one.lines}`.padStart(7)}${`${one.files}`.padStart(7)}${`${one.median}`.padStart(8)}` +
      `${`${one.p95}`.padStart(6)}${`${one.values}`.padStart(8)}${`${one.types}`.padStart(7)}${`${one.imports}`.padStart(9)}`,
  );
  const heading = 'flat       lines  files  median   p95  values  types  imports';
  context.diagnostic(`\n${[heading, ...rows].join('\n')}`);
});

test(`no flat has more than ${MOST_LINES} lines`, () => {
  assert.deepEqual(
    facts.filter(({ lines }) => lines > MOST_LINES),
    [],
  );
});

test(`a door exports at most ${WIDEST} values, or as many as it is known to`, () => {
  const wide = facts.filter(({ flat, values }) => values > (WIDER[flat] ?? WIDEST));
  assert.deepEqual(
    wide.map(({ flat, values }) => `${flat}: ${values}`),
    [],
  );
});

test('a door that became narrower is known as such', () => {
  const needless = Object.entries(WIDER).filter(
    ([flat, width]) => width <= WIDEST || facts.some((one) => one.flat === flat && one.values < width),
  );
  assert.deepEqual(needless, []);
});

test('each name that a door exports is imported by another flat, the kernel, a page, or the package', () => {
  const idle = FLATS.flatMap((flat) => {
    const door = `src/${flat}/index.ts`;
    const users = importsOf(sources).filter(({ to }) => to === door);
    const used = new Set(users.flatMap(({ from }) => sources.get(from)?.match(/[\w$]+/g) ?? []));
    const { values, types } = doorNames(sources.get(door) ?? '');
    return [...values, ...types].filter((name) => !used.has(name)).map((name) => `${door}: ${name}`);
  });
  assert.deepEqual(idle, []);
});

test('the second door of programs, for programs of src/extras, exports only names that these import, and at most 85 values', () => {
  const { values, types } = doorNames(sources.get('src/programs/toolkit.ts') ?? '');
  const extras = [...sources].filter(([path]) => path.startsWith('src/extras/'));
  const used = new Set(extras.flatMap(([, text]) => text.match(/[\w$]+/g) ?? []));
  assert.deepEqual(
    [...values, ...types].filter((name) => !used.has(name)),
    [],
  );
  assert.ok(values.length > 0 && values.length <= 85, `${values.length} values`);
});

test('each flat has a README of at most ten lines of text', () => {
  const texts = readFiles(['src', 'kernel'], 'README.md');
  for (const { flat } of facts) {
    const path = flat === 'kernel' ? 'kernel/README.md' : `src/${flat}/README.md`;
    const lines = (texts.get(path) ?? '').split('\n').filter((line) => line.trim() !== '');
    assert.ok(lines.length >= 4 && lines.length <= 10, `${path} has ${lines.length} lines`);
  }
});

test('a door has no name that its file assigns again, because a door keeps the first value', () => {
  const exported = [...sources.keys()].filter(isDoor).flatMap((door) =>
    importsOf(sources)
      .filter(({ from }) => from === door)
      .map(({ to }) => to),
  );
  assert.deepEqual(
    exported.filter((path) => /^export (let|var) /m.test(sources.get(path) ?? '')),
    [],
  );
});
