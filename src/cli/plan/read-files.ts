import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import { locatedText, presetNamed, readNamed } from '../../config';
import { ConfigError, MOST_CONFIG_BYTES, readRegularFile } from '../../core';
import {
  type HardwareCalibration,
  hubModelAt,
  type PriceTable,
  parseCalibration,
  planInputNamed,
  priceTable,
  type RecommendInput,
} from '../../planner';

/**
 * Reads the input of `recommend`: a published model or a preset by name, a number of parameters, a model's config.json or its
 * folder, or a file with a model's shape or a TrainConfig. Throws: CONFIG.
 */
export function readModel(name: string, cwd: string): RecommendInput {
  if (Number(name) > 0) return { model: { params: Number(name) } };
  const preset = presetNamed(name);
  if (preset !== undefined || !existsSync(resolve(cwd, name))) return preset ?? { model: name };
  const published = hubModelAt(name, cwd);
  if (published !== undefined) return planInputNamed(name, cwd);
  const { input } = readNamed(name, cwd);
  const isConfig = typeof input === 'object' && input !== null && 'model' in input;
  return isConfig ? planInputNamed(name, cwd) : { model: input as RecommendInput['model'] }; // the search checks it
}

/** Reads a calibration that `shardlab doctor --calibrate` wrote. Throws: CONFIG. */
export function readCalibration(name: string | undefined, cwd: string): HardwareCalibration | undefined {
  return name === undefined ? undefined : parseCalibration(readOther('--calibration', name, cwd), name);
}

/** Reads a file of prices: USD or CNY per hour of one GPU, under the name of the GPU. Throws: CONFIG. */
export function readPrices(name: string | undefined, cwd: string): PriceTable | undefined {
  return name === undefined ? undefined : priceTable(readOther('--prices', name, cwd), name);
}

function readOther(option: string, name: string, cwd: string): unknown {
  let text: string;
  try {
    text = readRegularFile(resolve(cwd, name), MOST_CONFIG_BYTES);
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new ConfigError(`${option} ${name} cannot be read (${reason})`);
  }
  return locatedText(text, name).input;
}
