import { nearest } from '../../config';
import { ConfigError } from '../../core';
import type { KeyInput, KeyRow, KeyTable, Translation } from './key-row';
import type { Effect, Entry, Place } from './reading';

/** A way in which another program writes settings: see [Note: dialects]. */
export interface Dialect {
  /** The program's name in messages. */
  readonly name: string;
  readonly keys: KeyTable;
  /** Beginnings of keys that may be left out in a section. */
  readonly prefixes?: Readonly<Record<string, string>>;
  /** Whether an argument's name has the sections that contain its key: --training.steps. */
  readonly namesSections?: boolean;
  /** Whether keys that the table does not have belong to the script; keys that look misspelled are warnings. */
  readonly hasOthers?: boolean;
  /** Whether the program ignores unknown keys outside of sections: such keys are warnings, or errors if they look misspelled. */
  readonly ignoresOthers?: boolean;
  /** What unknown keys may be that do not look misspelled; such keys are warnings. */
  readonly others?: string;
  /** Whether the program also ignores unknown keys within sections. */
  readonly ignoresWithin?: boolean;
  /** The reason why a value 'auto' has no effect; if there is no reason, 'auto' is a value like others. */
  readonly auto?: string;
  /** Returns the program that trains if these keys decide it; undefined if they do not. */
  readonly stack?: (other: KeyInput['other']) => Place['stack'] | undefined;
  /** Returns the program's defaults; their `usual` settings hold only if no line sets them. */
  readonly usual?: (other: KeyInput['other']) => Translation | null;
  /** Finds keys that contradict each other. */
  readonly checks?: (other: KeyInput['other']) => readonly Finding[];
}

/** A fault of a key that is seen only by comparison with other keys. */
export interface Finding {
  readonly key: string;
  readonly effect: Effect;
  readonly why: string;
}

/** The entries of one place (a file, or the arguments of a command), in one dialect. */
export interface Source {
  readonly dialect: Dialect;
  readonly entries: readonly LocatedKey[];
  /** The file and line of the program's defaults; by default, those of the first entry. */
  readonly at?: Pick<Entry, 'file' | 'line'>;
}

/** An entry with its path in the dialect's table: ['zero_optimization', 'stage']. */
export interface LocatedKey extends Entry {
  readonly path: readonly string[];
  /** The value that the row gets, if it differs from the written value. */
  readonly meant?: unknown;
}

/** A value that a script computes. */
export const NOT_KNOWN = Symbol('not known');

/** An entry with its meaning, and the row that gave the meaning. */
export interface TranslatedEntry {
  readonly entry: Entry;
  readonly meaning: Translation;
  readonly row: KeyRow | null;
  readonly stack?: Place['stack'] | undefined;
}

/** Returns the values of a source by key, with or without the key's sections; undefined if the key is not given, or its value is not known. */
export function valuesOf({ entries }: Source): KeyInput['other'] {
  const values = new Map<string, unknown>();
  for (const entry of entries) {
    const value = valueForRow(entry);
    if (hasUnknown(value)) continue;
    values.set(entry.path.at(-1) ?? '', value);
    values.set(entry.path.join('.'), value);
  }
  return (key) => values.get(key);
}

/**
 * Returns the meanings of a source's entries; each meaning may depend on the other entries. `elsewhere` has the values of files to which the
 * source refers.
 */
export function meantBy(
  source: Source,
  elsewhere: KeyInput['other'] = () => undefined,
): readonly TranslatedEntry[] {
  const { dialect, entries } = source;
  const own = valuesOf(source);
  const other = (key: string): unknown => own(key) ?? elsewhere(key);
  const findings = unlessWrong(() => dialect.checks?.(other)) ?? [];
  const stack = unlessWrong(() => dialect.stack?.(other));
  const meant = entries.map((entry) => ({ ...meantEntry(entry, dialect, other), stack }));
  const found = meant.map((one, index) => {
    const path = entries[index]?.path ?? [];
    const finding = findings.find(({ key }) => key === path.join('.') || key === path.at(-1));
    if (finding === undefined || one.meaning.effect === 'error') return one;
    return { ...one, meaning: { ...one.meaning, effect: finding.effect, why: finding.why } };
  });
  const usual = unlessWrong(() => dialect.usual?.(other)) ?? null;
  const [first = source.at] = entries;
  if (usual === null || first === undefined) return found;
  const entry = { file: first.file, line: first.line, key: `(${dialect.name}'s defaults)`, value: null };
  return [{ entry, meaning: usual, row: null }, ...found];
}

/** Returns the result of a function that reads other keys; undefined if one of them has a value that it cannot have, as its own line says. */
function unlessWrong<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch (error) {
    if (error instanceof ConfigError) return undefined;
    throw error;
  }
}

function meantEntry(located: LocatedKey, dialect: Dialect, other: KeyInput['other']): TranslatedEntry {
  const { path, meant: _, ...entry } = located;
  const { row, table } = rowAt(dialect.keys, path);
  const effectOf = (effect: Effect, why: string): TranslatedEntry => ({
    entry,
    row,
    meaning: { effect, why },
  });
  if (row === null) {
    const near = nearest(path.at(-1) ?? '', Object.keys(table));
    if (dialect.hasOthers === true)
      return near === undefined
        ? effectOf('none', 'is an argument of the script itself, and this script is not known here')
        : effectOf('warning', `is an argument of the script itself, or did you mean "${near}"?`);
    if (dialect.others !== undefined && near === undefined) return effectOf('warning', dialect.others);
    const isIgnored = path.length === 1 ? dialect.ignoresOthers : dialect.ignoresWithin;
    const isComment = /^_|^comment/i.test(path.at(-1) ?? '');
    if (isComment && dialect.ignoresOthers === true) return effectOf('none', 'is a comment');
    if (isIgnored === true && near === undefined)
      return effectOf('warning', `${dialect.name} ignores it: it has no such key`);
    return effectOf('error', unknownKey(path, table, dialect));
  }
  const given = valueForRow(located);
  const value = row.isPartial !== true && hasUnknown(given) ? NOT_KNOWN : given;
  if (value === NOT_KNOWN && (row.effect === null || row.effect === 'planned'))
    return effectOf('warning', `not known here: line ${entry.line} computes it; write ${row.says}`);
  if (dialect.auto !== undefined && value === 'auto') return effectOf('none', dialect.auto);
  if (row.effect !== 'none' && typeof value === 'string' && hasOpenVariable(value))
    return effectOf('warning', 'depends on a variable that these lines do not set, so it is left out');
  try {
    return { entry, row, meaning: row.mean({ key: path.at(-1) ?? '', value, line: entry.line, other }) };
  } catch (error) {
    if (error instanceof ConfigError) return effectOf('error', error.message);
    throw error;
  }
}

/** Whether a text has a variable of a script that the script does not set. */
export function hasOpenVariable(text: string): boolean {
  return /\$[\w{(]/.test(text);
}

/** Returns the value that an entry's row gets. */
function valueForRow({ value, meant = value }: LocatedKey): unknown {
  return meant;
}

/** Whether a value, or a part of a list, is one that a script computes. */
function hasUnknown(value: unknown): boolean {
  return value === NOT_KNOWN || (Array.isArray(value) && value.some(hasUnknown));
}

/** Returns the row of a key, and the table in which the row is or should be. */
function rowAt(
  keys: KeyTable,
  path: readonly string[],
): { readonly row: KeyRow | null; readonly table: KeyTable } {
  let table = keys;
  let row: KeyRow | null = null;
  for (const [depth, name] of path.entries()) {
    if (depth > 0) table = row?.parts ?? {};
    row = Object.hasOwn(table, name) ? (table[name] ?? null) : null;
    if (row === null) break;
  }
  return { row, table };
}

function unknownKey(path: readonly string[], table: KeyTable, { name, keys }: Dialect): string {
  const key = path.at(-1) ?? '';
  const near = nearest(key, Object.keys(table));
  if (near !== undefined) return `${name} has no such key; did you mean "${near}"?`;
  const elsewhere = placesOf(keys).find((place) => place.split('.').at(-1) === key);
  if (elsewhere !== undefined) return `${name} has this key in another place: ${elsewhere}`;
  return `${name} has no such key here`;
}

/** Returns all keys of a table, with the sections that contain them. */
export function placesOf(table: KeyTable, base = ''): readonly string[] {
  return Object.entries(table).flatMap(([key, row]) => [
    `${base}${key}`,
    ...(row.parts === undefined ? [] : placesOf(row.parts, `${base}${key}.`)),
  ]);
}
