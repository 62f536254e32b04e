import { type Original, SETTING_ROWS, settingAt, type TrainConfig } from '../../config';
import { ConfigError, ShardlabError, shown } from '../../core';
import type { Effect, Place } from './reading';

/**
 * [Note: dialects] A dialect is the way in which another program writes settings: a table with one row per key. A row of a key that is one of our
 * settings has the setting's path; the table of settings has the key's name. A row of another key has its effect and the reason.
 * The effect of a setting is not written down: it follows from the table of settings (warnings, conflicts, what a plan reads). Exports write the
 * keys whose rows have `write`. A row is therefore the only place that says what a key means, for reading and for exports.
 */
export interface KeyRow {
  /** The effect of the key, unless its value has another effect; null if the setting decides the effect. */
  readonly effect: Effect | null;
  /** The meaning of the key: the paths of settings, or a reason. */
  readonly says: string;
  /** Returns what a value means. Throws: CONFIG if the key cannot have this value. */
  readonly mean: (input: KeyInput) => Translation;
  /** The keys that this key contains, if it is a section. */
  readonly parts?: KeyTable;
  /** Whether a command line has the key without a value. */
  readonly isFlag?: boolean;
  /** Whether a list has a meaning if only some of its values are known. */
  readonly isPartial?: boolean;
  /** Returns the key's value in an export; undefined if the export leaves the key out. Without `write`, no export has the key. */
  readonly write?: Write;
}

/** The input of an export: a config, and the machines on which the config trains. */
export interface Exported {
  readonly config: TrainConfig;
  readonly machines: number;
  readonly ranksPerMachine: number;
}

export type Write = (exported: Exported) => unknown;

/** Rows by key, in the spelling of the other program. */
export type KeyTable = Readonly<Record<string, KeyRow>>;

/** A key with its value, and a function that returns the values of other keys of the same settings. */
export interface KeyInput {
  readonly key: string;
  readonly value: unknown;
  readonly line: number;
  /** Returns the value of another key, which is named without its sections; undefined if the key is not given. */
  readonly other: (key: string) => unknown;
}

/** Settings by path: 'parallel.strategy'. */
export type Patch = Readonly<Record<string, unknown>>;

/** What a key's value means here. */
export interface Translation {
  readonly sets?: Patch;
  /** Settings that hold unless a line sets them. */
  readonly usual?: Patch;
  readonly place?: Partial<Place>;
  /** The effect of this value; default: the effect of the row. */
  readonly effect?: Effect;
  /** The reason; default: the settings that the value sets, or the row's reason. */
  readonly why?: string;
  /** A file of settings that is read too. */
  readonly file?: string;
  /** The effect of the line if the file cannot be read; default: error. */
  readonly unread?: Effect;
  /** A script of Python; its calls are read too if the file exists. */
  readonly script?: string;
}

/** Returns the value of a setting. Throws: CONFIG for a value that the key cannot have. */
export type Convert = (value: unknown, input: KeyInput) => unknown;

/** Returns the row of a key that is one setting. */
export function setting(path: string, convert: Convert): KeyRow {
  return {
    effect: null,
    says: path,
    mean: (input) => {
      const value = convert(input.value, input);
      return value === undefined ? { effect: 'none', why: 'is empty' } : { sets: { [path]: value } };
    },
  };
}

/** Returns a row that is both read and written by exports. */
export function both(row: KeyRow, write: Write): KeyRow {
  return { ...row, write };
}

/** Returns the row of a key that is one setting. `write` makes the value in an export from the setting's value; by default, both are equal. */
export function settingBoth(
  path: string,
  convert: Convert,
  write: (value: unknown) => unknown = (value) => value,
): KeyRow {
  return both(setting(path, convert), ({ config }) => write(settingAt(config, path)));
}

/** Returns rows that are only read, not written by exports. */
export function onlyRead(table: KeyTable, names: string): KeyTable {
  return Object.fromEntries(
    names.split(' ').flatMap((name) => {
      const { write: _, ...row } = table[name] ?? none('');
      return Object.hasOwn(table, name) ? [[name, row]] : [];
    }),
  );
}

/** Returns the keys that an export has, with their values, in the order of the table. */
export function writtenKeys(table: KeyTable, exported: Exported): Readonly<Record<string, unknown>> {
  return Object.fromEntries(
    Object.entries(table).flatMap(([key, { parts, write }]) => {
      const within = parts === undefined ? {} : writtenKeys(parts, exported);
      const value = parts === undefined || Object.keys(within).length === 0 ? write?.(exported) : within;
      return value === undefined ? [] : [[key, value]];
    }),
  );
}

/** Returns the row of a key whose value decides which settings it changes. */
export function decides(says: string, mean: KeyRow['mean']): KeyRow {
  return { effect: null, says, mean };
}

/**
 * Returns rows of the keys by which a program names settings. `converters` has, by the setting's path, one converter for all its names in the
 * program, or one per name. Throws: INTERNAL if the table of settings does not have a name.
 */
export function settingKeys(
  original: Original,
  converters: Readonly<Record<string, Convert | Readonly<Record<string, Convert | KeyRow>>>>,
): KeyTable {
  const rows = Object.entries(converters).flatMap(([path, convert]) => {
    const names = [SETTING_ROWS.find((row) => row.path === path)?.names?.[original] ?? []].flat();
    if (typeof convert === 'function') return names.map((name) => [name, setting(path, convert)] as const);
    return Object.entries(convert).map(([name, one]) => {
      if (!names.includes(name))
        throw new ShardlabError('INTERNAL', `${path} has no name ${name} in ${original}`);
      return [name, typeof one === 'function' ? setting(path, one) : one] as const;
    });
  });
  return Object.fromEntries(rows);
}

/** Returns the row of a key that says where a training runs, or what only a plan knows. */
export function place(says: string, convert: (value: unknown) => Partial<Place>): KeyRow {
  return { effect: 'planned', says, mean: ({ value }) => ({ place: convert(value), why: says }) };
}

/** Returns the row of a switch that only a plan knows. `on` and `off` say what its two values mean. */
export function planSwitch(
  key: 'compile' | 'isFp8' | 'asyncTensorParallel',
  [on, off]: readonly [on: string, off: string],
  isOn: (value: unknown) => boolean,
): KeyRow {
  return {
    ...place(on, () => ({})),
    mean: ({ value }) =>
      isOn(value)
        ? { place: { [key]: true }, why: on }
        : { place: { [key]: false }, effect: 'none', why: off },
  };
}

/** The meanings of a compiler's switch: on and off. */
export const COMPILED = ['the model is compiled', 'the model is not compiled'] as const;

/** Returns the row of a key that is for the other program's launcher. */
export const exported = (why: string): KeyRow => fixedRow('exported', why);

/** Returns the row of a key that has no effect here. */
export const none = (why: string): KeyRow => fixedRow('none', why);

/** Returns rows of keys that have no effect here, all for the same reason; `names` are separated by blanks. */
export function allNone(why: string, names: string): KeyTable {
  return Object.fromEntries(names.split(' ').map((name) => [name, none(why)]));
}

/** Returns the row of a key that the other program does not have, or of a key with another effect than its name says. */
export const warned = (why: string): KeyRow => fixedRow('warning', why);

/** Returns the row of a key for a feature that is not built here; the key is refused unless its value switches the feature off. */
export function refused(why: string, isOff: (value: unknown) => boolean = isNothing, off = 'is off'): KeyRow {
  return {
    effect: 'refused',
    says: why,
    mean: ({ value }) => (isOff(value) ? { effect: 'none', why: off } : { effect: 'refused', why }),
  };
}

/** Returns a row like the given one, except that a value that switches the key off has no effect. */
export function ifOn(row: KeyRow): KeyRow {
  return {
    ...row,
    mean: (input) => (isNothing(input.value) ? { effect: 'none', why: 'is off' } : row.mean(input)),
  };
}

/** The reason of keys that let messages run beside computation. */
export const OVERLAP =
  'messages run beside computation in a run here; a plan has the default of the program, and Megatron-LM and stages 1 and 2 of DeepSpeed reduce gradients after backward';

function fixedRow(effect: Effect, why: string): KeyRow {
  return { effect, says: why, mean: () => ({ effect, why }) };
}

/** Returns the row of a section; the line of the section itself has no effect. */
export function section(parts: KeyTable): KeyRow {
  return {
    effect: 'none',
    says: 'a section',
    mean: ({ value }) => {
      const isEmpty = value === null || value === undefined || typeof value === 'object' || value === '';
      if (isEmpty) return { effect: 'none', why: 'is empty' };
      throw wrongValue(value, `a section with keys such as ${Object.keys(parts).slice(0, 3).join(', ')}`);
    },
    parts,
  };
}

/** Returns the row of an argument that has no value. */
export function flag(row: KeyRow): KeyRow {
  return { ...row, isFlag: true };
}

/** Returns rows of arguments that have no value. */
export function flags(rows: KeyTable): KeyTable {
  return Object.fromEntries(Object.entries(rows).map(([key, row]) => [key, flag(row)]));
}

/** Whether a value switches a key off: false, 0, 'no', 'none', null, or an empty text or list. */
export function isNothing(value: unknown): boolean {
  if (Array.isArray(value)) return value.length === 0;
  return ['', 'no', 'none', 'false', 'null', 'undefined', '0'].includes(String(value).toLowerCase());
}

/** Returns a failure for a value that a key cannot have. */
export function wrongValue(value: unknown, expected: string): ConfigError {
  return new ConfigError(`expected ${expected}, got ${shown(value)}`);
}
