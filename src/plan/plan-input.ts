import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import { checkLocated, presetNamed, readNamed } from '../config/named-config';
import { MODEL_NAMES } from '../config/settings/model';
import { parseTrainConfig, type TrainConfigInput } from '../config/train-config';
import { ConfigError } from '../core/errors';
import { type HardwareCalibration, parseCalibration, withCalibration } from './hardware-calibration';
import {
  type ConfigReading,
  isTrainConfig,
  type Place,
  readingOf,
  requestOfConfig,
  withPlace,
} from './layout-of-config';
import { modelName } from './models';
import { ourKey, parseRequest } from './parse-request';
import type { PlanRequestInput } from './request';

/**
 * What `plan` takes: a TrainConfig, which does not say where it runs, or a plan request; also by name: a published model's
 * ('llama3-8b'), a preset's, or a file's that holds either.
 */
export type PlanInput = PlanRequestInput | TrainConfigInput | string;

/** Where it runs: `on` a kind of GPU, by name or by its figures, and keys of a plan request that replace the input's. */
export type PlanPlace = (Place & { readonly on?: Hardware }) | Hardware;

type Hardware = NonNullable<PlanRequestInput['hardware']>;

/** What a plan is made with beside its input. */
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
  const asked = typeof input === 'string' ? planInputNamed(input) : input;
  if (typeof asked !== 'object' || asked === null || Array.isArray(asked)) {
    throw new ConfigError(
      `a plan needs a TrainConfig, a model's name or a request { model, hardware, gpus, parallel, batch }, got ${JSON.stringify(asked)}`,
    );
  }
  const place = placeOf(where);
  const { request, ...reading } = isTrainConfig(asked)
    ? configQuestion(asked, place)
    : { request: withPlace(asked, place), assumed: [], withoutEffect: [] };
  const known = calibration === undefined ? request : withCalibration(request, parseCalibration(calibration));
  return { request: known, ...reading };
}

/**
 * What a name means to a plan: a preset, a published model, or a file with a plan request or a TrainConfig. Throws: CONFIG
 * naming file, line, key and the nearest known one.
 */
export function planInputNamed(name: string, cwd = '.'): object {
  const model = existsSync(resolve(cwd, name)) ? MODEL_NAMES.find((each) => each === name) : modelName(name);
  const known = presetNamed(name) ?? (model && { model });
  if (known !== undefined) return known;
  const text = readNamed(name, cwd);
  const { input, wrong } = text;
  if (typeof input !== 'object' || input === null || Array.isArray(input)) {
    throw new ConfigError(`${name} holds no settings; write model, hardware, gpus, parallel and batch`);
  }
  if (isTrainConfig(input)) {
    checkLocated(text);
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

function configQuestion(input: object, place: Place): PlanQuestion {
  const config = parseTrainConfig(input);
  return {
    request: withPlace(requestOfConfig(config, input, place), place),
    ...readingOf(config, input, place),
  };
}

/** A hardware's name or description is short for { on }. */
function placeOf(place: PlanPlace): Place {
  if ((typeof place !== 'object' && typeof place !== 'string') || place === null) {
    throw new ConfigError(
      `a plan runs on hardware by name, as 'H100-80G', or on { on: 'H100-80G', gpus: 8, ... }, got ${JSON.stringify(place)}`,
    );
  }
  if (typeof place === 'string' || 'like' in place) return { hardware: place };
  const { on, ...rest } = place;
  if (on === undefined) return rest;
  if (rest.hardware === undefined) return { ...rest, hardware: on };
  throw new ConfigError(
    `a plan's place has on (${JSON.stringify(on)}) and hardware (${JSON.stringify(rest.hardware)}), which mean the same; give one`,
  );
}
