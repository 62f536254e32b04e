import { parseTrainConfig, type TrainConfigInput } from '../config/train-config';
import { ConfigError } from '../core/errors';
import { type ConfigReading, readingOf } from './config-readings';
import { type HardwareCalibration, parseCalibration, withCalibration } from './hardware-calibration';
import type { PlanRequestInput } from './request';
import { isTrainConfig, type Place, requestOfConfig } from './request-of-config';

/** What `plan` takes: a plan request, or a TrainConfig, which does not say where it runs. */
export type PlanInput = PlanRequestInput | TrainConfigInput;

/** Where it runs: hardware by name or by its figures, or keys of a plan request that replace the input's. */
export type PlanPlace = Place | NonNullable<PlanRequestInput['hardware']>;

export interface PlanOptions {
  /** What `shardlab doctor --calibrate` wrote, or the same as an object. */
  readonly calibration?: HardwareCalibration | undefined;
}

/** A plan request with what of the input it does not say. */
export interface PlanQuestion extends ConfigReading {
  readonly request: object;
}

/**
 * The plan request that an input means. `where` is the hardware by name, or keys of a plan request that replace the input's.
 * Throws: CONFIG for what is neither a request nor a TrainConfig, and for a TrainConfig that is wrong or cannot be planned.
 */
export function questionOf(
  input: unknown,
  where: PlanPlace = {},
  { calibration }: PlanOptions = {},
): PlanQuestion {
  if (typeof input !== 'object' || input === null || Array.isArray(input)) {
    const model = typeof input === 'string' ? `; a model's name is written { model: '${input}' }` : '';
    throw new ConfigError(
      `a plan needs a request { model, hardware, gpus, parallel, batch } or a TrainConfig, got ${JSON.stringify(input)}${model}`,
    );
  }
  const place = placeOf(where);
  const { request, ...reading } = isTrainConfig(input)
    ? configQuestion(input, place)
    : { request: merged(input, place), assumed: [], withoutEffect: [] };
  const known = calibration === undefined ? request : withCalibration(request, parseCalibration(calibration));
  return { request: known, ...reading };
}

function configQuestion(input: object, place: Place): PlanQuestion {
  const config = parseTrainConfig(input);
  return {
    request: merged(requestOfConfig(config, input, place), place),
    ...readingOf(config, input, place),
  };
}

/** { batch: { micro: 2 } } over { batch: { global: 64 } } keeps the global batch. */
function merged(input: object, place: Place): object {
  const written: Readonly<Record<string, unknown>> = { ...input };
  const both = (key: 'parallel' | 'batch'): object =>
    isObject(written[key]) && isObject(place[key]) ? { [key]: { ...written[key], ...place[key] } } : {};
  return { ...written, ...place, ...both('parallel'), ...both('batch') };
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null;
}

/** A hardware's name or description is short for { hardware }. */
function placeOf(place: PlanPlace): Place {
  if ((typeof place !== 'object' && typeof place !== 'string') || place === null) {
    throw new ConfigError(
      `a plan runs on hardware by name, as 'H100-80G', or on { hardware, gpus, ... }, got ${JSON.stringify(place)}`,
    );
  }
  return typeof place === 'string' || 'like' in place ? { hardware: place } : place;
}
