import { valueAt } from './config-issue';
import type { Facts } from './setting';
import { SETTING_ROWS } from './setting-table';
import { parseTrainConfig, type TrainConfig, type TrainConfigInput } from './train-config';

/**
 * Returns a sentence for each given setting that has no effect, or an effect that its name does not suggest, with the
 * reason and what to do. A setting at its default is reported only if the user wrote the setting, not if the input
 * is a whole config.
 */
export function configWarnings(input: TrainConfigInput, config: TrainConfig, world: number): string[] {
  const facts: Facts<TrainConfig> = { config, world, given: (path) => isGiven(input, config, path) };
  return SETTING_ROWS.flatMap(({ path, warns }) => {
    const said = warns === undefined || !facts.given(path) ? null : warns(facts);
    return said === null ? [] : [`${path} ${said}`];
  });
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
  return parseTrainConfig({ mixedPrecision: {}, schedule: { maxSteps: 1 } });
}

function keysOf(value: unknown): string {
  return Object.keys(value ?? {})
    .sort()
    .join();
}
