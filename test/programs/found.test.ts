import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { stringify } from 'yaml';
import { readConfig } from '../../src/programs/read';
import type { Reading } from '../../src/programs/rows/reading';
import { testData } from '../support/paths';
import { effects, folderOf } from './read-files';

// Files of public repositories, as their keys and values.

interface Found {
  readonly name: string;
  /** The repository and path of the file. */
  readonly source: string;
  readonly yaml?: object;
  readonly json?: object;
  readonly toml?: object;
  readonly environment?: Readonly<Record<string, string>>;
  readonly command?: readonly string[];
  /** Number of ranks that somebody who reads the file gives. */
  readonly ranks?: number;
  /** Files to which it refers, by the names of their entries. */
  readonly files?: Readonly<Record<string, string>>;
  /** Keys whose lines are errors, each with its reason. */
  readonly errors?: Readonly<Record<string, string>>;
  /** Keys that must be refused. */
  readonly refused?: readonly string[];
  readonly expected: Expected;
}

interface Expected {
  readonly world?: number;
  readonly machines?: number;
  readonly strategy?: string;
  readonly paramDtype?: string;
  readonly batch?: number;
  readonly accumulation?: number;
  readonly steps?: number;
  readonly parallel?: object;
  readonly offload?: object;
}

const FOUND: readonly Found[] = JSON.parse(readFileSync(testData('dialects', 'found.json'), 'utf8'));

/** Returns an entry as a file in its own syntax. */
function fileOf({ name, yaml, json, toml, environment = {}, command }: Found): readonly [string, string] {
  if (yaml !== undefined) return [`${name}.yaml`, stringify(yaml, { version: '1.1' })];
  if (json !== undefined) return [`${name}.json`, JSON.stringify(json, null, 2)];
  if (toml !== undefined) return [`${name}.toml`, tomlOf(toml).join('\n')];
  const exports = Object.entries(environment).map(([key, value]) => `export ${key}=${quoted(value)}\n`);
  return [`${name}.sh`, `#!/bin/bash\n${exports.join('')}${(command ?? []).map(quoted).join(' \\\n  ')}\n`];
}

function quoted(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}

/** Returns an object as lines of TOML. */
function tomlOf(value: object, path: readonly string[] = []): readonly string[] {
  const isTable = (item: unknown): item is object =>
    typeof item === 'object' && item !== null && !Array.isArray(item);
  const own = Object.entries(value).filter(([, item]) => !isTable(item));
  const tables = Object.entries(value).filter(([, item]) => isTable(item));
  return [
    ...(own.length > 0 && path.length > 0 ? [`[${path.join('.')}]`] : []),
    ...own.map(([key, item]) => `${key} = ${JSON.stringify(item)}`),
    ...tables.flatMap(([key, item]) => tomlOf(item as object, [...path, key])),
  ];
}

function readingOf(found: Found): Reading {
  const [file, text] = fileOf(found);
  const referred = Object.entries(found.files ?? {}).map(([path, name]) => {
    const entry = FOUND.find((one) => one.name === name);
    assert.ok(entry, name);
    return [path, fileOf(entry)[1]] as const;
  });
  return readConfig(file, {
    cwd: folderOf({ [file]: text, ...Object.fromEntries(referred) }),
    world: found.ranks,
  });
}

/** What a reading says about the settings that are expected of every file. */
function saidBy({ world, machines, config }: Reading, { parallel, offload, steps }: Expected): Expected {
  const { strategy, ...degrees } = config.parallel ?? {};
  const precision: { paramDtype?: unknown } = Object(config.mixedPrecision ?? {});
  const said = {
    world: world ?? undefined,
    machines: machines ?? undefined,
    strategy,
    paramDtype: precision.paramDtype,
    batch: config.batch,
    accumulation: config.accumulation,
    steps: steps === undefined ? undefined : config.steps,
    parallel: parallel === undefined ? undefined : partOf(degrees, parallel),
    offload: offload === undefined ? undefined : config.offload,
  };
  return JSON.parse(JSON.stringify(said));
}

/** Returns the keys of an object that another one has. */
function partOf(value: object, like: object): object {
  return Object.fromEntries(Object.entries(value).filter(([key]) => Object.hasOwn(like, key)));
}

test('at least 30 files of public repositories are there, each with its source', () => {
  assert.ok(FOUND.length >= 30, `${FOUND.length} files`);
  assert.equal(new Set(FOUND.map(({ source }) => source)).size, FOUND.length);
});

for (const found of FOUND) {
  test(`${found.name} is read with its world, strategy, precision and batch, and without an unknown key`, () => {
    const reading = readingOf(found);
    const wrong = reading.lines.filter(({ effect }) => effect === 'error');
    assert.deepEqual(
      wrong.map(({ key }) => key),
      Object.keys(found.errors ?? {}),
      JSON.stringify(wrong),
    );
    assert.deepEqual(saidBy(reading, found.expected), found.expected);
    const by = effects(reading);
    for (const key of found.refused ?? []) assert.equal(by[key], 'refused', key);
    assert.ok(reading.lines.every(({ why }) => why !== ''));
  });
}
