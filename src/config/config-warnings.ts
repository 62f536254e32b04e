import { valueAt } from './config-issue';
import type { Facts } from './setting';
import { SETTING_ROWS } from './setting-table';
import { parseSettings, type TrainConfig, type TrainConfigInput } from './train-config';

/** What a user should know about a setting that is given. */
export interface SettingWarning {
  readonly path: string;
  /** The end of a sentence that begins with the path. */
  readonly says: string;
  /** Whether the setting has no effect; if not, it has an effect that its name does not suggest. */
  readonly isIdle: boolean;
}

/**
 * Returns a warning for each given setting that has no effect, or an effect that its name does not suggest, with the
 * reason and what to do. A setting at its default is reported only if the user wrote the setting, not if the input
 * is a whole config.
 */
export function settingWarnings(
  input: TrainConfigInput,
  config: TrainConfig,
  world: number,
): SettingWarning[] {
  const facts: Facts<TrainConfig> = { config, world, given: (path) => isGiven(input, config, path) };
  return SETTING_ROWS.flatMap(({ path, idle, warns }) => {
    if ((idle ?? warns) === undefined || !facts.given(path)) return [];
    const reason = idle?.(config) ?? null;
    const says = reason ?? warns?.(facts) ?? null;
    return says === null ? [] : [{ path, says, isIdle: reason !== null }];
  });
}

/** Returns the warnings about a config's settings as sentences. */
export function configWarnings(input: TrainConfigInput, config: TrainConfig, world: number): string[] {
  return settingWarnings(input, config, world).map(({ path, says }) => `${path} ${says}`);
}

/**
 * Whether the user wrote the setting. A section with all keys may come from a parsed config, so its settings at their defaults
 * do not count.
 */
function isGiven(input: TrainConfigInput, config: TrainConfig, path: string): boolean {
  const parts = path.split('.');
  const value = valueAt(input, parts);
  if (value === undefined) return false;
  const section = parts.slice(0, -1);
  const [asked, full] = [valueAt(input, section), valueAt(config, section)];
  const isWhole = typeof asked === 'object' && keysOf(asked) === keysOf(full);
  return !isWhole || JSON.stringify(value) !== JSON.stringify(valueAt(defaults(), parts));
}

/** Returns a config of defaults; sections that are null by default are filled with the defaults of their settings. */
function defaults(): unknown {
  return parseSettings({ mixedPrecision: {}, schedule: { maxSteps: 1 } });
}

function keysOf(value: unknown): string {
  return Object.keys(value ?? {})
    .sort()
    .join();
}
