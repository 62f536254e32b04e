import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import { locatedText } from '../../config/located-text';
import { readNamed } from '../../config/named-config';
import { ConfigError } from '../../core/errors';
import { readRegularFile } from '../../core/regular-file';
import { type HardwareCalibration, parseCalibration } from '../../plan/hardware-calibration';
import { type PriceTable, priceTable } from '../../plan/prices';

/** A model for `recommend`: a published one's name, a number of parameters, or a file with its shape. Throws: CONFIG. */
export function readModel(name: string, cwd: string): unknown {
  if (Number(name) > 0) return { params: Number(name) };
  if (!existsSync(resolve(cwd, name))) return name;
  const { input } = readNamed(name, cwd);
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
