import { z } from 'zod';

/** One thing that is wrong with a config. */
export interface ConfigIssue {
  /** The key's path: ['optimizer', 'lr']. */
  readonly path: readonly (string | number)[];
  readonly message: string;
}

/**
 * A place where a setting has further names: in calls of this library's functions ('fsdp', 'fullyShard', 'ddp', 'fairScale'),
 * or in another program.
 */
export type Original =
  | 'fsdp'
  | 'fullyShard'
  | 'ddp'
  | 'fairScale'
  | 'torch'
  | 'deepSpeed'
  | 'transformers'
  | 'accelerate'
  | 'megatron'
  | 'peft'
  | 'wan'
  | 'diffSynth';

/** Facts on which a warning may depend. */
export interface Facts<Config> {
  readonly config: Config;
  readonly world: number;
  /** Whether the user's config has the setting with this path. */
  given(path: string): boolean;
}

/** The parts of a plan's place on which the meaning of a setting may depend. */
export interface PlannedOn {
  readonly gpus?: number | undefined;
  readonly exampleTokens?: number | undefined;
}

/** Returns how a plan uses a setting's value differently from a run; null if both use it in the same way. */
type Otherwise<Config> = (config: Config, on: PlannedOn) => string | null;

/** How a plan uses a setting. */
export type Planned<Config> =
  /** The setting affects time or memory. READERS in src/planner/layout-of-config.ts must have a function that reads it. */
  | { readonly reads: true; readonly but?: Otherwise<Config> }
  /** The setting would affect a training on GPUs, but plans do not read it; the text of `refused` says what is planned instead. */
  | { readonly refused: string }
  /** The setting affects neither time nor memory of a step; the text of `ignored` says why. */
  | { readonly ignored: string; readonly but?: Otherwise<Config> };

interface Row<in Config> {
  /** The type of the setting's values, and its default. */
  readonly schema: z.ZodType;
  /** The setting's meaning, for docs/reference/settings.md. */
  readonly says: string;
  /** How a value is written, if the schema does not say so; messages about a wrong value end with this text. */
  readonly form?: string;
  /**
   * The setting's names elsewhere, as PyTorch or another program spells them: 'sharding_strategy'. In calls of this library's
   * functions, the option has the same name in camelCase: `shardingStrategy`.
   */
  readonly names?: Readonly<Partial<Record<Original, string | readonly string[]>>>;
  /** If a config has another program's name for the setting, an error names the setting's path, and then `hint`. */
  readonly hint?: string;
  /** Other programs' names for the setting's values, in lower case without '-', '_' and blanks. */
  readonly words?: Readonly<Record<string, string>>;
  /** Called if a config has the setting. Returns why the setting has no effect in this config; null if it has an effect. */
  readonly idle?: (config: Config) => string | null;
  /** Called if a config has the setting. Returns a warning about an effect that its name does not suggest; null if there is none. */
  readonly warns?: (facts: Facts<Config>) => string | null;
  /** Returns what contradicts the setting; null if nothing does. */
  readonly conflict?: (config: Config) => string | readonly ConfigIssue[] | null;
}

/**
 * What a training without the setting has otherwise: another 'loss' at some step; the same losses (up to rounding) but other 'work' (time,
 * memory, messages); or 'nothing'. Exports and engine torch leave out a setting that they cannot express only if it does not change the loss.
 */
export type Changes = 'loss' | 'work' | 'nothing';

/** Everything about a setting. `Config` is the part of a config that `idle`, `warns`, `conflict` and `but` of this setting read. */
export interface Setting<in Config> extends Row<Config> {
  readonly changes: Changes;
  readonly planned: Planned<Config>;
  /** Settings within this setting. A plan uses this setting and its parts together. */
  readonly parts?: Readonly<Record<string, Row<Config>>>;
}

/** Settings that belong together; each of them says how a plan uses it. */
export interface Section<in Config> extends Row<Config> {
  readonly planned: 'by part';
  readonly parts: Settings<Config>;
}

export type Settings<Config> = Readonly<Record<string, Setting<Config>>>;

type Schemas = Readonly<Record<string, { readonly schema: z.ZodType }>>;

/** Makes a schema of an object with all these settings. */
export function schemaOf<Rows extends Schemas>(
  rows: Rows,
): z.ZodObject<{ -readonly [Key in keyof Rows]: Rows[Key]['schema'] }, z.core.$strict> {
  const entries = Object.entries(rows).map(([key, { schema }]) => [key, schema]);
  // `entries` has the schema of each row, under the row's key.
  return z.strictObject(Object.fromEntries(entries)) as ReturnType<typeof schemaOf<Rows>>;
}
