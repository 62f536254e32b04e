import { parse } from 'yaml';
import { ConfigError } from '../core';
import { ownData } from './settings/data';
import { checkTrainConfig, type TrainConfig } from './train-config';

type Section = Readonly<Record<string, unknown>>;

/**
 * Returns settings with some replaced, each written as 'parallel.strategy=ZERO_2' with a YAML value. A section in a short form,
 * such as a model's name, is first replaced by its long form. Throws: CONFIG for a text that is not a key and a value.
 */
export function withSettings<Input extends object>(input: Input, texts: readonly string[]): Input {
  return texts.reduce<Section>(
    (settings, text) => {
      const [, path, value] = /^\s*([\w.]+)\s*=(.*)$/s.exec(text) ?? [];
      if (path === undefined || value === undefined)
        throw new ConfigError(`--set ${text}: give a key and a value, as --set parallel.strategy=ZERO_2`);
      return replaced(settings, path.split('.'), yamlOf(text, value));
    },
    Object.fromEntries(Object.entries(input)),
  ) as Input; // the caller checks the settings
}

function replaced(section: Section, [key = '', ...rest]: readonly string[], value: unknown): Section {
  return { ...section, [key]: rest.length === 0 ? value : replaced(within(section, key), rest, value) };
}

function within(section: Section, key: string): Section {
  const written = section[key];
  if (typeof written === 'object' && written !== null) return { ...written };
  if (key === 'model' && typeof written === 'string') return { like: written };
  const checked = checkTrainConfig({ [key]: written });
  if ('issues' in checked || typeof written !== 'string') return {};
  return Object.fromEntries(Object.entries(longForm(checked.config, key)));
}

function longForm(config: TrainConfig, key: string): object {
  if (key === 'data') return ownData(config.data) ?? {};
  return Object(Object.entries(config).find(([name]) => name === key)?.[1] ?? {});
}

function yamlOf(text: string, value: string): unknown {
  try {
    return parse(value);
  } catch (error) {
    const reason = error instanceof Error ? error.message.split('\n')[0] : String(error);
    throw new ConfigError(`--set ${text}: the value is not YAML (${reason})`);
  }
}
