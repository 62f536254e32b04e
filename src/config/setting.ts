import { z } from 'zod';

/** One thing that is wrong with a config. */
export interface ConfigIssue {
  /** The key's place: ['optimizer', 'lr']. */
  readonly path: readonly (string | number)[];
  readonly message: string;
}

/** Calls of this library, and other programs, that have a setting under a name of their own. */
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
  /** Whether a setting, by its path, was asked for. */
  given(path: string): boolean;
}

/** Where a plan runs, as far as it replaces settings. */
export interface PlannedOn {
  readonly gpus?: number | undefined;
  readonly recompute?: unknown;
}

/** What a plan says of a setting whose value it takes otherwise than a run does; null where it does not. */
type Otherwise<Config> = (config: Config, on: PlannedOn) => string | null;

/** What a plan makes of a setting. */
export type Planned<Config> =
  /** It decides time or memory: src/plan/layout-of-config.ts has a reader of it, or does not compile. */
  | { readonly reads: true; readonly but?: Otherwise<Config> }
  /** It would change a training on GPUs and is planned otherwise: the sentence that says how. */
  | { readonly refused: string }
  /** It changes neither time nor memory of a step, and why. */
  | { readonly ignored: string; readonly but?: Otherwise<Config> };

interface Row<in Config> {
  /** With its default. */
  readonly schema: z.ZodType;
  /** What it means, for docs/settings.md. */
  readonly says: string;
  /** How it is written, where the schema's choices do not say it: what a message about a wrong value ends with. */
  readonly form?: string;
  /** What others call it, in their spelling; arguments of calls here are the same in camelCase. */
  readonly names?: Readonly<Partial<Record<Original, string | readonly string[]>>>;
  /** What is added to its path where somebody writes another's name for it. */
  readonly hint?: string;
  /** What others call its values, in lower case without '-', '_' and blanks. */
  readonly words?: Readonly<Record<string, string>>;
  /** That the setting, which was asked for, has no effect or another one than its name says; null where it has. */
  readonly warns?: (facts: Facts<Config>) => string | null;
  /** What contradicts the setting; null where nothing does. */
  readonly conflict?: (config: Config) => string | readonly ConfigIssue[] | null;
}

/** A setting: all that is known of it. `Config` is what its rules read. */
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

/** The schema of settings, from their rows. */
export function schemaOf<Rows extends Schemas>(
  rows: Rows,
): z.ZodObject<{ -readonly [Key in keyof Rows]: Rows[Key]['schema'] }, z.core.$strict> {
  const entries = Object.entries(rows).map(([key, { schema }]) => [key, schema]);
  // Each row's own schema under its own key.
  return z.strictObject(Object.fromEntries(entries)) as ReturnType<typeof schemaOf<Rows>>;
}
