import { resolve } from 'node:path';
import {
  ConfigError,
  MOST_CONFIG_BYTES,
  nearest,
  readRegularFile,
  ShardlabError,
  shortened,
  shown,
} from '../core';
import { LONGEST_PATH } from './call-options';
import { type LocatedText, locatedText } from './located-text';
import { MODEL_NAMES } from './model-names';
import { checkTrainConfig, type TrainConfigInput } from './train-config';

/**
 * Returns the config of a name: a preset, a model's name alone, or a YAML or JSON file. Returns a config unchanged.
 * Throws: CONFIG with file, line and key of everything that is wrong, or with the nearest name.
 */
export function configNamed(config: TrainConfigInput | string, cwd = '.'): TrainConfigInput {
  if (typeof config !== 'string') return config;
  const preset = presetNamed(config);
  if (preset !== undefined) return preset;
  const model = MODEL_NAMES.find((name) => name === config);
  if (model !== undefined) return { model };
  const text = readNamed(config, cwd);
  checkLocated(text);
  return text.input as TrainConfigInput; // the text passed the check
}

export function presetNamed(name: string): TrainConfigInput | undefined {
  return Object.entries(PRESETS).find(([key]) => key === name)?.[1];
}

/** Reads the settings of a file. Throws: CONFIG if it cannot be read, with the nearest preset or model. */
export function readNamed(name: string, cwd: string): LocatedText {
  let text: string;
  if (name.length > LONGEST_PATH)
    throw new ConfigError(`${shown(name)} is neither a preset, a model nor the path of a file`);
  try {
    text = readRegularFile(resolve(cwd, name), MOST_CONFIG_BYTES);
  } catch (error) {
    // The path has something that cannot be read as a text.
    if (error instanceof ShardlabError) throw new ConfigError(`${name} cannot be read (${error.message})`);
    const names = [...new Set([...Object.keys(PRESETS), ...MODEL_NAMES])];
    const near = nearest(name, names);
    // Messages of node end with the path, which this message begins with.
    const reason = (error instanceof Error ? error.message : String(error)).replace(/, open '.*'$/s, '');
    throw new ConfigError(
      `${shortened(name)} is neither a preset, a model nor a file that can be read (${reason}); ` +
        (near === undefined ? `choose one of ${names.join(', ')}` : `did you mean ${near}?`),
    );
  }
  return locatedText(text, name);
}

/** Checks that a file's settings are a TrainConfig. Throws: CONFIG with file, line and key of everything that is wrong. */
export function checkLocated({ input, wrong }: LocatedText): void {
  const checked = checkTrainConfig(input);
  if ('issues' in checked) throw wrong(checked.issues);
}

/** Configs that have a name on the command line; `bench` has the values of the torch benchmark. */
export const PRESETS = {
  tiny: { model: 'tiny', data: 'typescript', batch: 4 },
  bench: {
    model: 'bench',
    data: 'synthetic',
    batch: 8,
    optimizer: { lr: 1e-3, betas: [0.9, 0.95], eps: 1e-8, weightDecay: 0.1 },
    clipNorm: 1,
  },
  // Wan2.2's recipe on 2 or 4 ranks: --dit_fsdp --t5_fsdp --ulysses_size 2, with two experts.
  wan: {
    model: 'wan-tiny',
    textEncoder: { model: 't5-tiny', fsdp: true },
    data: 'moving-shapes',
    batch: 4,
    parallel: { strategy: 'FULL_SHARD', cp: 2, cpKind: 'ulysses' },
    activationCheckpointing: { everyNth: 4 },
    optimizer: { kind: 'adamW8bit', lr: 3e-3, weightDecay: 0 },
    schedule: { kind: 'cosine', warmupSteps: 20, maxSteps: 400 },
  },
} as const satisfies Record<string, TrainConfigInput>;
