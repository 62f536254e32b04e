import type { z } from 'zod';
import { ConfigError, ownValue } from '../core';
import { issuesMessage, toIssues, type Words } from './config-issue';
import { type ReadModelFiles, readModelFiles } from './model-files';
import { PUBLISHED_TRAINING } from './named-models';
import { unplainParts } from './plain-input';
import type { ConfigIssue } from './setting';
import { configSchema, keysOf, SETTING_ROWS, settingAt } from './setting-table';
import { publishedModelName } from './settings/model';

/** What to train and how: the model, its strategy, data, optimizer and length. */
export type TrainConfig = Readonly<z.output<typeof configSchema>>;

/** A TrainConfig in which everything that has a default may be left out. */
export type TrainConfigInput = z.input<typeof configSchema>;

const KEYS = keysOf(configSchema);

/** Returns the known keys of a section, by its path; '' is the whole config. */
export function knownKeys(path: string): readonly string[] {
  return ownValue(KEYS, path) ?? [];
}

/** Either a config or everything that is wrong with the input. */
export type ConfigCheck<Config = TrainConfig> =
  | { readonly config: Config }
  | { readonly issues: readonly [ConfigIssue, ...ConfigIssue[]] };

/** Checks an input without throwing. */
export function checkTrainConfig(input: unknown): ConfigCheck {
  return checkConfig(input, configSchema, {}, readModelFiles);
}

/**
 * Checks an input without throwing; the schema may have more keys than a TrainConfig. Without `read`, a model that is given by a
 * folder is refused.
 */
export function checkConfig<Config extends TrainConfig>(
  input: unknown,
  schema: z.ZodType<Config>,
  words: Partial<Words> = {},
  read: ReadModelFiles = (model) => model,
): ConfigCheck<Config> {
  const [unplain, ...others] = unplainParts(input);
  if (unplain !== undefined) return { issues: [unplain, ...others] };
  const parsed = schema.safeParse(withModelSettings(input, read));
  if (!parsed.success) return { issues: toIssues(parsed.error.issues, input, keysOf(schema), words) };
  const [first, ...rest] = configConflicts(parsed.data);
  return first === undefined ? { config: parsed.data } : { issues: [first, ...rest] };
}

/** Reads the model's files, and adds the settings with which a published model trains where the input has none. */
function withModelSettings(input: unknown, read: ReadModelFiles): unknown {
  if (typeof input !== 'object' || input === null || !('model' in input)) return input;
  const model = read(input.model);
  if (model !== input.model) return { ...input, model };
  if (publishedModelName(input.model) === null) return input;
  const written = Object.entries(input).filter(([, value]) => value !== undefined);
  return { ...PUBLISHED_TRAINING, ...Object.fromEntries(written) };
}

/** Finds settings that contradict each other or the model; each issue has both values and says what to change. */
function configConflicts(config: TrainConfig): ConfigIssue[] {
  return SETTING_ROWS.flatMap(({ path, conflict }) => {
    const found = conflict?.(config) ?? [];
    return typeof found === 'string' ? [{ path: path.split('.'), message: found }] : [...found];
  });
}

/** Returns a full config for a partial one. Throws: CONFIG with every wrong key, its value, and the nearest known key. */
export function parseTrainConfig(input: unknown): TrainConfig {
  return configOf(checkTrainConfig(input === undefined ? {} : input));
}

/** As `parseTrainConfig`, but reads no files. */
export function parseSettings(input: TrainConfigInput): TrainConfig {
  return configOf(checkConfig(input, configSchema));
}

function configOf(checked: ConfigCheck): TrainConfig {
  if ('config' in checked) return checked.config;
  throw new ConfigError(issuesMessage(checked.issues), { issues: checked.issues });
}

/** Returns the config that has the default of each setting, for the same optimizer. */
export function usualConfig({ optimizer, mixedPrecision }: TrainConfig): TrainConfig {
  // No default depends on the model, and the default data would not fit every model.
  return parseSettings({
    optimizer: { kind: optimizer.kind },
    ...(mixedPrecision !== null && { mixedPrecision: {} }),
  });
}

/** Whether a setting has another value in a config than in the usual config. */
export function isChanged(path: string, config: TrainConfig, usual: TrainConfig): boolean {
  return JSON.stringify(settingAt(config, path)) !== JSON.stringify(settingAt(usual, path));
}
