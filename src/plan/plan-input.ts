import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import { checkLocated, presetNamed, readNamed } from '../config/named-config';
import { MODEL_NAMES } from '../config/settings/model';
import { parseTrainConfig, type TrainConfigInput } from '../config/train-config';
import { ConfigError } from '../core/errors';
import type { Planned } from './cost-of';
import { type HardwareCalibration, parseCalibration, withCalibration } from './hardware-calibration';
import type { Layout } from './layout';
import { type Asked, askedBy, layoutAsked } from './layout-of';
import {
  type Assumed,
  askedByConfig,
  type ConfigReading,
  isTrainConfig,
  readingOf,
} from './layout-of-config';
import { modelName } from './models';
import { ourKey, parseRequest, parseWith } from './parse-request';
import { predict } from './predict';
import { type PlanRequestInput, PUBLISHED_FACTS, placeSchema } from './request';

/**
 * What `plan` takes: a TrainConfig, which does not say where it runs, or a plan request; also by name: a published model's
 * ('llama3-8b'), a preset's, or a file's that holds either.
 */
export type PlanInput = PlanRequestInput | TrainConfigInput | string;

/** What a TrainConfig does not say: where it runs. Other keys of a plan request replace what the config says. */
export type Place = Partial<PlanRequestInput>;

/** Where it runs: `on` a kind of GPU, by name or by its figures, and keys of a plan request that replace the input's. */
export type PlanPlace = (Place & { readonly on?: Hardware }) | Hardware;

type Hardware = NonNullable<PlanRequestInput['hardware']>;

/** What a plan is made with beside its input. */
export interface PlanOptions {
  /** What `shardlab doctor --calibrate` wrote, or the same as an object. */
  readonly calibration?: HardwareCalibration | undefined;
}

/** A layout, what is expected of it, and what of the input is planned otherwise. */
export type PlannedInput = Planned & ConfigReading;

/**
 * Plans what an input means. `where` is the hardware by name, or keys of a plan request that replace the input's.
 * Throws: CONFIG for what is neither a request nor a TrainConfig, and for a TrainConfig that is wrong or cannot be planned.
 */
export function plannedInput(
  input: PlanInput,
  where: PlanPlace = {},
  { calibration }: PlanOptions = {},
): PlannedInput {
  const asked = inputOf(input);
  const place = placeOf(where);
  const measured = calibration && parseCalibration(calibration);
  if (!isTrainConfig(asked)) return plannedRequest(withPlace(asked, place), measured);
  const config = parseTrainConfig(asked);
  const written = calibrated(place, measured);
  const request = parseWith(placeSchema, written);
  const settings = { ...askedByConfig(config, asked, request), ...askedBy(request) };
  return planned(written, settings, readingOf(config, asked, request));
}

/** The same of a plan request. Throws: CONFIG naming the key, its value and what to change. */
export function plannedRequest(request: object, calibration?: HardwareCalibration): PlannedInput {
  const written = calibrated(request, calibration);
  return planned(written, askedBy(parseRequest(written)), { assumed: [], withoutEffect: [] });
}

function planned(written: object, asked: Asked, { assumed, withoutEffect }: ConfigReading): PlannedInput {
  const layout = layoutAsked(asked);
  const readings = requestReadings(written, asked, layout);
  return { layout, prediction: predict(layout), assumed: [...assumed, ...readings], withoutEffect };
}

/** The input that a name means. Throws: CONFIG for what is none. */
export function inputOf(input: unknown): object {
  const asked = typeof input === 'string' ? planInputNamed(input) : input;
  if (typeof asked === 'object' && asked !== null && !Array.isArray(asked)) return asked;
  throw new ConfigError(
    `a plan needs a TrainConfig, a model's name or a request { model, hardware, gpus, parallel, batch }, got ${JSON.stringify(asked)}`,
  );
}

/** The place's keys replace the input's; { batch: { micro: 2 } } over { batch: { global: 64 } } keeps the global batch. */
export function withPlace<Input extends object>(input: Input, place: Place): Input & Place {
  const written = input as Readonly<Record<string, unknown>>; // an object has keys
  const both = (key: 'parallel' | 'batch'): object =>
    isObject(written[key]) && isObject(place[key]) ? { [key]: { ...written[key], ...place[key] } } : {};
  return { ...input, ...place, ...both('parallel'), ...both('batch') };
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

/** A hardware's name or description is short for { on }. */
export function placeOf(place: PlanPlace): Place {
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

function calibrated(request: object, calibration: HardwareCalibration | undefined): object {
  return calibration === undefined ? request : withCalibration(request, calibration);
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null;
}

/**
 * Settings of a request that its layout does not have, each with what it has instead. `written` is the request as it came,
 * `asked` the same parsed, with what a config says.
 */
function requestReadings(written: object, asked: Asked, layout: Layout): readonly Assumed[] {
  const { pp, schedule, recompute, optimizer } = layout;
  const rows: readonly (readonly [setting: string, asked: unknown, planned: unknown])[] = [
    ['schedule', asked.schedule, pp > 1 || asked.schedule === '1F1B' ? schedule : 'one stage'],
    ['virtualStages', asked.virtualStages, layout.virtualStages],
    ['parallel.sequenceParallel', asked.sequenceParallel, layout.sequenceParallel],
    ['parallel.asyncTensorParallel', asked.asyncTensorParallel, layout.asyncTensorParallel],
    ['parallel.dpShard', asked.dpShard, layout.shards],
    ['recomputeEveryNth', asked.recomputeEveryNth, recompute === 'full' ? asked.recomputeEveryNth : 1],
    [
      'optimizerStates.momentum',
      asked.optimizerStates?.momentum,
      optimizer.kind === 'sgd' ? optimizer.momentum : 0,
    ],
  ];
  const changed = rows.filter(([, value, planned]) => value !== undefined && value !== planned);
  return [
    ...changed.map(([setting, value, planned]) => ({
      setting,
      says: `${setting} ${value} has no effect here: planned as ${planned}`,
    })),
    ...factsOf(written),
  ];
}

function factsOf(written: object): Assumed[] {
  const model = 'model' in written ? written.model : undefined;
  if (typeof model !== 'object' || model === null) return [];
  const facts = Object.keys(model).filter((key) => PUBLISHED_FACTS.includes(key));
  const variants = Object.entries(model).flatMap(([key, value]) =>
    typeof value === 'object' && value !== null && !PUBLISHED_FACTS.includes(key)
      ? [{ setting: `model.${key}`, says: `model.${key} ${JSON.stringify(value)} is planned as its first` }]
      : [],
  );
  if (facts.length === 0) return variants;
  const says = `model: ${facts.join(', ')} are not read: they follow from the kind, or change nothing that is planned`;
  return [...variants, { setting: facts.map((key) => `model.${key}`).join(', '), says }];
}
