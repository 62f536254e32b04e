import { z } from 'zod';
import { type Changes, type Planned, type Setting, schemaOf } from './setting';
import { MODEL_PARTS } from './settings/model';
import { SETTINGS } from './settings/training';

export const configSchema = schemaOf(SETTINGS);

type Config = z.output<typeof configSchema>;
type Table = typeof SETTINGS;

/** The path of a setting, or the paths of a section's parts, if their rows have the type `Like`. */
type PathsOf<Key extends string, Row, Like> = Row extends { planned: 'by part'; parts: infer Parts }
  ? { [Part in keyof Parts & string]: Parts[Part] extends Like ? `${Key}.${Part}` : never }[keyof Parts &
      string]
  : Row extends Like
    ? Key
    : never;

/** Settings that a plan reads, by path: 'parallel.strategy'. */
export type PlannedPath = {
  [Key in keyof Table & string]: PathsOf<Key, Table[Key], { readonly planned: { readonly reads: true } }>;
}[keyof Table & string];

/** Every setting that has a row of its own, by path: 'batch', 'parallel.strategy'. */
export type SettingPath = { [Key in keyof Table & string]: PathsOf<Key, Table[Key], unknown> }[keyof Table &
  string];

type Row = Omit<Setting<Config>, 'planned' | 'changes'>;

/** A row of the table, by the setting's path. */
export interface SettingRow extends Omit<Setting<Config>, 'planned' | 'changes'> {
  readonly path: string;
  /** What the setting changes; null if the row of the setting's section, or the rows of its parts, say this. */
  readonly changes: Changes | null;
  /** How a plan uses the setting; null if the row of the setting's section, or the rows of its parts, say this. */
  readonly planned: Planned<Config> | null;
}

/** All settings except those within `model`; a section comes before its parts. */
export const SETTING_ROWS: readonly SettingRow[] = Object.entries<
  Row & { readonly changes?: Changes; readonly planned: Planned<Config> | 'by part' }
>(SETTINGS).flatMap(([path, row]) => [
  { ...row, path, changes: row.changes ?? null, planned: row.planned === 'by part' ? null : row.planned },
  ...Object.entries<Row & Partial<Setting<Config>>>(row.parts ?? {}).map(([key, part]) => ({
    ...part,
    path: `${path}.${key}`,
    changes: part.changes ?? null,
    planned: part.planned ?? null,
  })),
]);

/** The rows of settings that say by themselves what they change, in the order of the table: all except sections, and parts of a setting. */
export const WHOLE_SETTINGS: readonly (SettingRow & {
  readonly path: SettingPath;
  readonly changes: Changes;
})[] = SETTING_ROWS.flatMap((row) =>
  // A row has `changes` exactly if it is no section and no part of a setting, as SettingPath has it.
  row.changes === null ? [] : [{ ...row, path: row.path as SettingPath, changes: row.changes }],
);

/** Returns the value of the setting at a path; undefined if the setting's section is null. */
export function settingAt(config: object, path: string): unknown {
  return path
    .split('.')
    .reduce<unknown>((value, key) => (value as Record<string, unknown> | null)?.[key], config);
}

/** How settings with several forms are written, by path; messages about wrong values end with this text. */
export const FORMS: Readonly<Record<string, string>> = Object.fromEntries([
  ['', "{ model: 'tiny', parallel: { strategy: 'FULL_SHARD' } }"],
  ...[
    ...SETTING_ROWS,
    ...Object.entries(MODEL_PARTS).map(([key, part]) => ({ ...part, path: `model.${key}` })),
  ].flatMap(({ path, form }) => (form === undefined ? [] : [[path, form]])),
]);

/** The known keys of each section, by path; '' is the whole config. */
export type KnownKeys = Readonly<Record<string, readonly string[]>>;

/** Returns the keys of every object in a schema, by path; a union has the keys of all its forms. */
export function keysOf(schema: z.core.$ZodType, place = ''): KnownKeys {
  if (schema instanceof z.ZodObject) {
    const shape: Readonly<Record<string, z.core.$ZodType>> = schema.shape;
    const within = Object.entries(shape).map(([key, inner]) =>
      keysOf(inner, place === '' ? key : `${place}.${key}`),
    );
    return Object.assign({ [place]: Object.keys(shape) }, ...within);
  }
  if (schema instanceof z.ZodUnion) {
    const all: Record<string, readonly string[]> = {};
    for (const option of schema.options) {
      for (const [at, keys] of Object.entries(keysOf(option, place)))
        all[at] = [...new Set([...(all[at] ?? []), ...keys])];
    }
    return all;
  }
  if (schema instanceof z.ZodPipe)
    return keysOf(schema.in instanceof z.ZodTransform ? schema.out : schema.in, place);
  if (schema instanceof z.ZodArray) return keysOf(schema.element, place);
  const wrappers = [z.ZodDefault, z.ZodPrefault, z.ZodNullable, z.ZodOptional, z.ZodReadonly] as const;
  const wrapper = wrappers.find((each) => schema instanceof each);
  // Every wrapper has a method `unwrap`.
  return wrapper === undefined ? {} : keysOf((schema as z.ZodNullable).unwrap(), place);
}
