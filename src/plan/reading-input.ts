import type { TrainConfigInput } from '../config/train-config';
import { ConfigError } from '../core/errors';
import type { Reading } from '../dialects/rows/reading';
import { whereOf } from '../dialects/together';
import type { Place } from './place';
import type { PlannedConfig } from './planned-model';

/** Whether an input is the reading of another program's settings, as sl.readConfig returns it. */
export function isReading(input: unknown): input is Reading {
  if (typeof input !== 'object' || input === null) return false;
  try {
    return 'config' in input && 'lines' in input && 'place' in input;
  } catch {
    return false; // a proxy that throws; the check of configs says so
  }
}

/** Throws: CONFIG with every line that is an error. If no line is a setting, refused lines count as errors. */
export function requireReadable({ config, lines }: Reading): void {
  const isRefused = Object.keys(config).length === 0;
  const wrong = lines.filter(({ effect }) => effect === 'error' || (isRefused && effect === 'refused'));
  if (wrong.length > 0)
    throw new ConfigError(wrong.map((line) => `${whereOf(line)}: ${line.key}: ${line.why}`).join('\n'));
}

/** Returns the config of a reading. */
export function readingInput({ config }: Reading): TrainConfigInput {
  return config;
}

/** Returns the place where a reading runs, and the model and its sequences if only a plan has them. */
export function readingPlace(reading: Reading): PlannedConfig & Place {
  const { world, machines, place, config } = reading;
  const degrees = degreesOf(reading);
  const gpus = world ?? (degrees > 1 ? degrees : undefined);
  const name = place.model ?? (typeof config.model === 'string' ? config.model : undefined);
  return {
    ...(gpus !== undefined && { gpus }),
    ...(world !== null && machines !== null && machines > 1 && { gpusPerNode: world / machines }),
    ...(name !== undefined && { model: place.seq === undefined ? name : { like: name, seq: place.seq } }),
    ...(place.compile === true && { compile: true }),
    ...(place.dropout !== undefined && { dropout: place.dropout }),
    ...(place.isFp8 === true && { fp8: true }),
  };
}

/** Returns the number of ranks that one copy of the model needs. */
export function degreesOf({ config: { parallel = {} } }: Reading): number {
  return (parallel.tp ?? 1) * (parallel.cp ?? 1) * (parallel.pp ?? 1);
}

/** Throws: CONFIG if the reading's rows per rank depend on the number of ranks, and the reading does not have this number. */
export function requireWorld({ world, place: { globalBatch } }: Reading, gpus: unknown): void {
  if (world !== null || globalBatch === undefined || gpus === undefined) return;
  throw new ConfigError(
    `a step has ${globalBatch} rows of all ranks together, and the settings do not state the number of ranks, so the rows per rank are not known; ` +
      `write sl.readConfig(FILE, { world: ${String(gpus)} })`,
  );
}
