import { existsSync, statSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { catalogueName, HUB_CATALOGUE } from '../../config/hub-names';
import { ConfigError } from '../../core/errors';
import { parseJson } from '../../core/json-text';
import { ownValue } from '../../core/own-value';
import { MOST_CONFIG_BYTES, readRegularFile } from '../../core/regular-file';
import type { ModelShapeInput } from '../model-shape';
import { FAMILIES, hubConfigSchema } from './hub-config';

/** Returns the shape of a published model by its name on a hub ('Qwen/Qwen3-32B'); undefined: the catalogue does not have it. */
export function catalogueModel(name: string): ModelShapeInput | undefined {
  const known = catalogueName(name);
  const config = known === undefined ? undefined : HUB_CATALOGUE[known];
  return config && shapeOfHub(config, known ?? name);
}

/**
 * Returns the shape in a config.json of transformers or diffusers, or in a folder that has such a file; undefined: the path has
 * neither.
 * Throws: CONFIG for a family that is not known, and for a config without the sizes that its family needs.
 */
export function hubModelAt(path: string, cwd = '.'): ModelShapeInput | undefined {
  const at = resolve(cwd, path);
  if (!existsSync(at)) return undefined;
  const file = statSync(at).isDirectory() ? join(at, 'config.json') : at;
  if (!existsSync(file) || !file.endsWith('.json')) return undefined;
  const config = jsonOf(file);
  return isHubConfig(config)
    ? shapeOfHub(config, path.replace(/\/?(config\.json)?$/, '') || path)
    : undefined;
}

function jsonOf(file: string): unknown {
  try {
    return parseJson(readRegularFile(file, MOST_CONFIG_BYTES));
  } catch {
    return undefined; // the reader of configs reports the error with its line
  }
}

/** Whether a value is a model's config, which names a family, and not a TrainConfig. */
export function isHubConfig(value: unknown): value is object {
  if (typeof value !== 'object' || value === null || 'model' in value) return false;
  return 'model_type' in value || '_class_name' in value;
}

/** Returns the shape of a config. Throws: CONFIG as `hubModelAt` does. */
export function shapeOfHub(config: object, name: string): ModelShapeInput {
  const parsed = hubConfigSchema.safeParse('text_config' in config ? textOf(config) : config);
  if (!parsed.success) {
    const [issue] = parsed.error.issues;
    throw new ConfigError(`${name}: ${issue?.path.join('.')}: ${issue?.message}`);
  }
  const { _class_name: className, model_type: type } = parsed.data;
  const family = className ?? type ?? '';
  const read = ownValue(FAMILIES, family);
  if (read === undefined) {
    throw new ConfigError(
      `${name}: model_type '${family}' is not known. Known: ${Object.keys(FAMILIES).join(', ')}; ` +
        'describe any other model by { kind, layers, dim, heads, vocab, seq } or { params }',
    );
  }
  try {
    return { name, ...read(parsed.data) };
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
    throw new ConfigError(`${name}: ${error.message}; write it into the config, because ${family} needs it`);
  }
}

/** Returns the config of the language model, which is nested if the model also reads images. */
function textOf(config: object): object {
  const text = 'text_config' in config ? config.text_config : undefined;
  return typeof text === 'object' && text !== null ? text : config;
}
