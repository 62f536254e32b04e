import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import { locatedText } from '../../config/located-text';
import { nearest } from '../../config/nearest';
import { PRESETS } from '../../config/presets';
import { checkTrainConfig } from '../../config/train-config';
import { ConfigError } from '../../core/errors';
import { readRegularFile } from '../../core/regular-file';
import { type HardwareCalibration, parseCalibration } from '../../plan/hardware-calibration';
import { MODELS, modelOf } from '../../plan/models';
import { ourKey, parseRequest } from '../../plan/parse-request';
import { type PriceTable, priceTable } from '../../plan/prices';
import { isTrainConfig } from '../../plan/request-of-config';

/**
 * What a name on the command line means: a preset, a published model, or a file with a plan request or a TrainConfig.
 * Throws: CONFIG naming file, line, key and the nearest known one.
 */
export function readPlanInput(name: string, cwd: string): object {
  const preset = Object.entries(PRESETS).find(([key]) => key === name)?.[1];
  if (preset !== undefined) return preset;
  if (Object.hasOwn(MODELS, name) || (!existsSync(resolve(cwd, name)) && isModel(name)))
    return { model: name };
  const { input, wrong } = locatedText(readText(name, cwd), name);
  if (typeof input !== 'object' || input === null || Array.isArray(input)) {
    throw new ConfigError(`${name} holds no settings; write model, hardware, gpus, parallel and batch`);
  }
  if (isTrainConfig(input)) {
    const checked = checkTrainConfig(input);
    if ('issues' in checked) throw wrong(checked.issues);
    return input;
  }
  try {
    parseRequest(input);
  } catch (error) {
    const issues = error instanceof ConfigError ? error.details.issues : undefined;
    // parseRequest puts them there.
    throw Array.isArray(issues) ? wrong(issues as Parameters<typeof wrong>[0], ourKey) : error;
  }
  return input;
}

/** Whether it is a published model's name as others spell it. */
function isModel(name: string): boolean {
  try {
    return modelOf(name).name !== undefined;
  } catch (error) {
    if (error instanceof ConfigError) return false;
    throw error;
  }
}

/** A model for `recommend`: a published one's name, a number of parameters, or a file with its shape. Throws: CONFIG. */
export function readModel(name: string, cwd: string): unknown {
  if (Number(name) > 0) return { params: Number(name) };
  if (!existsSync(resolve(cwd, name))) return name;
  const { input } = locatedText(readText(name, cwd), name);
  return typeof input === 'object' && input !== null && 'model' in input ? input.model : input;
}

/** A calibration that `shardlab doctor --calibrate` wrote. Throws: CONFIG. */
export function readCalibration(name: string | undefined, cwd: string): HardwareCalibration | undefined {
  if (name === undefined) return undefined;
  return parseCalibration(locatedText(readOther('--calibration', name, cwd), name).input, name);
}

/** Prices in USD per GPU hour by the GPU's name. Throws: CONFIG. */
export function readPrices(name: string | undefined, cwd: string): PriceTable | undefined {
  if (name === undefined) return undefined;
  return priceTable(locatedText(readOther('--prices', name, cwd), name).input, name);
}

function readText(name: string, cwd: string): string {
  try {
    return readRegularFile(resolve(cwd, name));
  } catch (error) {
    const names = [...Object.keys(PRESETS), ...Object.keys(MODELS)];
    const near = nearest(name, names);
    throw new ConfigError(
      `${name} is neither a preset, a model nor a file that can be read (${reasonOf(error)}); ` +
        (near === undefined ? `known are ${names.join(', ')}` : `did you mean ${near}?`),
    );
  }
}

function readOther(option: string, name: string, cwd: string): string {
  try {
    return readRegularFile(resolve(cwd, name));
  } catch (error) {
    throw new ConfigError(`${option} ${name} cannot be read (${reasonOf(error)})`);
  }
}

function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
