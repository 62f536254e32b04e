import type { TrainConfigInput } from '../config/train-config';
import { ConfigError } from '../core/errors';
import type { Warn } from '../core/warn';
import { type HardwareCalibration, parseCalibration, withCalibration } from './hardware-calibration';
import type { Layout } from './layout';
import { layoutOf } from './layout-of';
import type { PlanRequestInput } from './request';
import { isTrainConfig, type Place, requestOfConfig } from './request-of-config';

/** What `plan` takes: a plan request, or a TrainConfig, which does not say where it runs. */
export type PlanInput = PlanRequestInput | TrainConfigInput;

/** Where it runs: hardware by name or by its figures, or keys of a plan request that replace the input's. */
export type PlanPlace = Place | NonNullable<PlanRequestInput['hardware']>;

export interface PlanOptions {
  /** What `shardlab doctor --calibrate` wrote, or the same as an object. */
  readonly calibration?: HardwareCalibration | undefined;
  readonly warn?: Warn | undefined;
}

/**
 * The layout that an input means. `place` is the hardware by name, or keys of a plan request that replace the input's.
 * Throws: CONFIG naming every key that is wrong, and what to change.
 */
export function layoutOfInput(input: unknown, place: PlanPlace = {}, options: PlanOptions = {}): Layout {
  if (typeof input !== 'object' || input === null || Array.isArray(input)) {
    const model = typeof input === 'string' ? `; a model's name is written { model: '${input}' }` : '';
    throw new ConfigError(
      `a plan needs a request { model, hardware, gpus, parallel, batch } or a TrainConfig, got ${JSON.stringify(input)}${model}`,
    );
  }
  return layoutOf(requestOfInput(input, placeOf(place), options));
}

/** The plan request that an input means, with what `place` replaces. */
export function requestOfInput(input: object, place: Place, { calibration, warn }: PlanOptions = {}): object {
  const request = isTrainConfig(input) ? requestOfConfig(input, place, warn) : merged(input, place);
  return calibration === undefined ? request : withCalibration(request, parseCalibration(calibration));
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
