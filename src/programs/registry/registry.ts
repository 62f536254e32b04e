import { existsSync } from 'node:fs';
import { join } from 'node:path';
import type { Target } from '../export/target';
import { knownCalls } from '../python/known-calls';
import type { KeyRow, KeyTable } from '../rows/key-row';
import type { Dialect } from '../rows/meant';
import { DOCUMENTED, PYTHON_NAME } from './documented';
import type { CommandForm, FileForm, Program, ScriptForm } from './program';

/** The programs so far, in the order of their numbers. */
let known: readonly Program[] = [...DOCUMENTED];
let isLoaded = false;

/** Adds programs. Called when `src/extras` is loaded. */
export function registerPrograms(...programs: readonly Program[]): void {
  known = sorted([...known, ...programs]);
}

/**
 * [Note: extras] Returns all programs. The first call loads the folder `extras` beside this flat, if it exists: the only place that
 * does. No import names this folder, so that a copy without it builds, reads and exports all other programs.
 */
export function programs(): readonly Program[] {
  if (isLoaded) return known;
  isLoaded = true;
  const extras = join(__dirname, '..', '..', 'extras', 'index.js');
  if (existsSync(extras)) require(extras);
  return known;
}

/** Returns the dialects of all programs, in the order of docs/reference/programs/index.md. */
export function dialects(): readonly Dialect[] {
  return programs().flatMap(({ name, keys }) => (name === PYTHON_NAME ? pythonCalls() : keys));
}

/** Returns the calls that are read in a script of Python, those of all programs. */
export function pythonCalls(): Dialect {
  const all = programs();
  if (python?.programs !== all) {
    const trainers = all.map(({ calls }) => calls?.functions ?? {});
    const keys = knownCalls(Object.assign({}, ...trainers) as KeyTable); // the tables of the programs
    python = { programs: all, dialect: { name: PYTHON_NAME, keys } };
  }
  return python.dialect;
}

/** The calls of these programs. */
let python: { readonly programs: readonly Program[]; readonly dialect: Dialect } | undefined;

/** Returns the forms of files, in the order in which they are tried. */
export function fileForms(): readonly FileForm[] {
  return sorted(programs().flatMap(({ files = [] }) => files));
}

/** Returns the commands of launchers and trainers. */
export function commandForms(): readonly CommandForm[] {
  return programs().flatMap(({ commands = [] }) => commands);
}

/** Returns the forms of scripts, in the order in which they are tried. */
export function scriptForms(): readonly ScriptForm[] {
  return sorted(programs().flatMap(({ scripts = [] }) => scripts));
}

/** Returns the programs and schedulers for which exports are written, by name, in the order of the help. */
export function targets(): ReadonlyMap<string, Target> {
  const entries = programs().flatMap(({ write = {} }) =>
    Object.entries(write).map(([name, target]) => ({ name, target, order: target.order })),
  );
  return new Map(sorted(entries).map(({ name, target }) => [name, target]));
}

/** Returns the names of all targets, in the order of the help. */
export function targetNames(): readonly string[] {
  return [...targets().keys()];
}

function sorted<Item extends { readonly order: number }>(items: readonly Item[]): readonly Item[] {
  return items.toSorted((a, b) => a.order - b.order);
}

/**
 * Returns the row of a key, or the row of a section that stands for all keys in it; null if the dialect does not know the key.
 */
export function rowOf(keys: KeyTable, key: string): KeyRow | null {
  let table: KeyTable | undefined = keys;
  let row: KeyRow | null = null;
  for (const name of key.split('.')) {
    if (table === undefined) return row;
    row = Object.hasOwn(table, name) ? (table[name] ?? null) : null;
    if (row === null) return null;
    table = row.parts;
  }
  return row;
}
