import { existsSync, statSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { MOST_CONFIG_BYTES, parseJson, readRegularFile } from '../core';
import type { ModelShapeInput } from './model-shape';
import { isHubConfig, shapeOfHub } from './models';

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
