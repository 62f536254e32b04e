import { z } from 'zod';

/** One thing that is wrong with a config. */
export interface ConfigIssue {
  /** The key's path: ['optimizer', 'lr']. */
  readonly path: readonly (string | number)[];
  readonly message: string;
}

/** Calls of this library, and other programs, that have their own names for settings. */
export type Original =
  | 'fsdp'
  | 'fullyShard'
  | 'ddp'
  | 'fairScale'
  | 'torch'
  | 'deepSpeed'
  | 'transformers'
  | 'accelerate'
  | 'megatron';

/** What a warning may depend on. */
export interface Facts<Config> {
  readonly config: Config;
  readonly world: number;
  /** Whether the user gave the setting with this path. */
  given(path: string): boolean;
}

/** Values of a plan's request that replace settings. */
export interface PlannedOn {
  readonly gpus?: number | undefined;
  readonly recompute?: unknown;
}

/** Returns how a plan uses a setting's value differently from a run; null: in the same way. */
type Otherwise<Config> = (config: Config, on: PlannedOn) => string | null;

/** How a plan uses a setting. */
export type Planned<Config> =
  /** It affects time or memory: without a reader of it, src/plan/layout-of-config.ts does not compile. */
  | { readonly reads: true; readonly but?: Otherwise<Config> }
  /** It would affect a training on GPUs, but plans do not read it; the sentence says what is planned instead. */
  | { readonly refused: string }
  /** It affects neither time nor memory of a step; the sentence says why. */
  | { readonly ignored: string; readonly but?: Otherwise<Config> };

interface Row<in Config> {
  /** The type of its values, and its default. */
  readonly schema: z.ZodType;
  /** Its meaning, for docs/settings.md. */
  readonly says: string;
  /** How it is written, if the schema does not say it; messages about a wrong value end with this text. */
  readonly form?: string;
  /** Its names in other programs, in their spelling; arguments of calls here are the same names in camelCase. */
  readonly names?: Readonly<Partial<Record<Original, string | readonly string[]>>>;
  /** If a config has another program's name for the setting, an error names the setting's path; this text follows the path. */
  readonly hint?: string;
  /** Other programs' names for its values, in lower case without '-', '_' and blanks. */
  readonly words?: Readonly<Record<string, string>>;
  /** Returns why the setting, if a config has it, has no effect or another effect than its name says; null: no warning. */
  readonly warns?: (facts: Facts<Config>) => string | null;
  /** Returns what contradicts the setting; null: nothing. */
  readonly conflict?: (config: Config) => string | readonly ConfigIssue[] | null;
}

/** Everything about a setting. `Config` is the part of a config that its rules read. */
export interface Setting<in Config> extends Row<Config> {
  readonly planned: Planned<Config>;
  /** Settings within it that are planned with it. */
  readonly parts?: Readonly<Record<string, Row<Config>>>;
}

/** Settings that belong together and are planned one by one. */
export interface Section<in Config> extends Row<Config> {
  readonly planned: 'by part';
  readonly parts: Settings<Config>;
}

export type Settings<Config> = Readonly<Record<string, Setting<Config>>>;

type Schemas = Readonly<Record<string, { readonly schema: z.ZodType }>>;

/** Makes the schema of settings from their rows. */
export function schemaOf<Rows extends Schemas>(
  rows: Rows,
): z.ZodObject<{ -readonly [Key in keyof Rows]: Rows[Key]['schema'] }, z.core.$strict> {
  const entries = Object.entries(rows).map(([key, { schema }]) => [key, schema]);
  // `entries` has the schema of each row, under the row's key.
  return z.strictObject(Object.fromEntries(entries)) as ReturnType<typeof schemaOf<Rows>>;
}
