import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import { requirePlain } from '../config/config-issue';
import { checkLocated, presetNamed, readNamed } from '../config/named-config';
import { requireKnownOptions } from '../config/option-names';
import { MODEL_NAMES, modelShape } from '../config/settings/model';
import { parseTrainConfig, type TrainConfigInput } from '../config/train-config';
import { ConfigError } from '../core/errors';
import { shown } from '../core/shown';
import type { Reading } from '../dialects/rows/reading';
import type { Planned } from './cost-of';
import { type HardwareCalibration, parseCalibration, withCalibration } from './hardware-calibration';
import { catalogueModel, hubModelAt } from './hub/read-hub';
import type { Layout } from './layout';
import { type Asked, askedBy, layoutAsked } from './layout-of';
import {
  type Assumed,
  askedByConfig,
  type ConfigReading,
  isTrainConfig,
  readingOf,
} from './layout-of-config';
import { modelName, ownModelRefused } from './models';
import { ourKey, parseRequest, parseWith } from './parse-request';
import { predict } from './predict';
import { isReading, readingInput, readingPlace, requireReadable, requireWorld } from './reading-input';
import { type PlanRequestInput, PUBLISHED_FACTS, placeSchema } from './request';

/**
 * The input of `plan`: a TrainConfig, a plan request, the reading of another program's settings (sl.readConfig), or a name. The
 * name is that of a published model ('llama3-8b', 'Qwen/Qwen3-32B'), of a preset, of a model's config.json or its folder, or of
 * a file that contains a TrainConfig or a plan request.
 */
export type PlanInput = PlanRequestInput | TrainConfigInput | Reading | string;

/** Where a TrainConfig runs, as keys of a plan request; other keys of a plan request replace values of the config. */
export type Place = Partial<PlanRequestInput>;

/** Where an input runs: `on` is a kind of GPU, by name or by figures; keys of a plan request replace those of the input. */
export type PlanPlace = (Place & { readonly on?: Hardware }) | Hardware;

type Hardware = NonNullable<PlanRequestInput['hardware']>;

/** Options of a plan. */
export interface PlanOptions {
  /** The calibration that `shardlab doctor --calibrate` wrote, as an object. */
  readonly calibration?: HardwareCalibration | undefined;
}

export const PLAN_OPTIONS: readonly (keyof PlanOptions)[] = ['calibration'];

/** A layout, its prediction, and settings that are planned with other values. */
export type PlannedInput = Planned & ConfigReading;

/**
 * Plans an input. `where` is the hardware's name, or keys of a plan request, which replace those of the input.
 * Throws: CONFIG if the input is neither a request nor a TrainConfig, or is a TrainConfig that is wrong or cannot be planned.
 */
export function plannedInput(
  input: PlanInput,
  where: PlanPlace = {},
  options: PlanOptions = {},
): PlannedInput {
  requireKnownOptions('plan(input, place, { … })', options, PLAN_OPTIONS);
  const { calibration } = options;
  const { asked, place } = inputAt(input, where);
  const measured = calibration && parseCalibration(calibration);
  if (!isTrainConfig(asked)) return plannedRequest(withPlace(asked, place), measured);
  const config = parseTrainConfig(asked);
  if (modelShape(config).kind === 'own') throw ownModelRefused();
  const written = calibrated(place, measured);
  const request = parseWith(placeSchema, written);
  const settings = { ...askedByConfig(config, asked, request), ...askedBy(request) };
  return planned(written, settings, readingOf(config, asked, request));
}

/** Plans a plan request. Throws: CONFIG with the key, its value and what to change. */
export function plannedRequest(request: object, calibration?: HardwareCalibration): PlannedInput {
  const written = calibrated(request, calibration);
  return planned(written, askedBy(parseRequest(written)), { assumed: [], withoutEffect: [] });
}

function planned(written: object, asked: Asked, { assumed, withoutEffect }: ConfigReading): PlannedInput {
  const layout = layoutAsked(asked);
  const readings = requestReadings(written, asked, layout);
  return { layout, prediction: predict(layout), assumed: [...assumed, ...readings], withoutEffect };
}

/**
 * Returns an input and the place where it runs. A reading has both, and keys of `where` replace those of the reading's place.
 * Throws: CONFIG for a reading with lines that are errors.
 */
export function inputAt(input: unknown, where: PlanPlace): { readonly asked: object; readonly place: Place } {
  const asked = inputOf(input);
  const place = placeOf(where);
  if (!isReading(input)) return { asked, place };
  requireWorld(input, place.gpus);
  return { asked, place: withPlace(readingPlace(input), place) };
}

/** Returns the input of a name, the config of a reading, or any other object as it is. Throws: CONFIG for anything else. */
export function inputOf(input: unknown): object {
  if (isReading(input)) {
    requireReadable(input);
    return readingInput(input);
  }
  const asked = typeof input === 'string' ? planInputNamed(input) : input;
  requirePlain(asked);
  if (typeof asked === 'object' && asked !== null && !Array.isArray(asked)) return asked;
  throw new ConfigError(
    `a plan needs a TrainConfig, a model's name or a request { model, hardware, gpus, parallel, batch }, got ${shown(asked)}`,
  );
}

/**
 * Replaces the input's keys by the place's keys that have a value. Keys within `parallel` and `batch` are replaced one by one.
 */
export function withPlace<Input extends object, P extends object>(input: Input, place: P): Input & P {
  const written = input as Readonly<Record<string, unknown>>; // an object has keys
  const given: Readonly<Record<string, unknown>> = keysWithValues(place);
  const both = (key: 'parallel' | 'batch'): object =>
    isObject(written[key]) && isObject(given[key])
      ? { [key]: { ...written[key], ...keysWithValues(given[key]) } }
      : {};
  return { ...input, ...given, ...both('parallel'), ...both('batch') } as Input & P; // the keys of both
}

function keysWithValues(object: object): object & Readonly<Record<string, unknown>> {
  return Object.fromEntries(
    Object.entries(object).filter(([, value]) => value !== undefined && value !== null),
  );
}

/**
 * Returns the plan's input for a name: a preset, a published model, a model's config.json or its folder, or a file with a plan
 * request or a TrainConfig. Throws: CONFIG with file, line, key and the nearest known key.
 */
export function planInputNamed(name: string, cwd = '.'): object {
  const model = existsSync(resolve(cwd, name)) ? MODEL_NAMES.find((each) => each === name) : modelName(name);
  const known = presetNamed(name) ?? (model && { model });
  if (known !== undefined) return known;
  const published = existsSync(resolve(cwd, name)) ? hubModelAt(name, cwd) : catalogueModel(name);
  if (published !== undefined) return { model: published };
  const text = readNamed(name, cwd);
  const { input, wrong } = text;
  if (typeof input !== 'object' || input === null || Array.isArray(input)) {
    throw new ConfigError(`${name} contains no settings; write model, hardware, gpus, parallel and batch`);
  }
  if (isTrainConfig(input)) {
    checkLocated(text);
    return input;
  }
  try {
    parseRequest(input);
  } catch (error) {
    const issues = error instanceof ConfigError ? error.details.issues : undefined;
    // The type is known, because parseRequest makes the issues.
    throw Array.isArray(issues) ? wrong(issues as Parameters<typeof wrong>[0], ourKey) : error;
  }
  return input;
}

/** Returns a place as keys of a plan request; the name or description of a GPU is short for { on }. */
export function placeOf(place: PlanPlace): Place {
  if ((typeof place !== 'object' && typeof place !== 'string') || place === null || Array.isArray(place)) {
    throw new ConfigError(
      `give the hardware's name, such as 'H100-80G', or { on: 'H100-80G', gpus: 8, ... }, got ${shown(place)}`,
    );
  }
  requirePlain(place);
  if (typeof place === 'string' || 'like' in place) return { hardware: place };
  const { on, ...rest } = place;
  if (on === undefined) return rest;
  if (rest.hardware === undefined) return { ...rest, hardware: on };
  throw new ConfigError(
    `a plan's place has on (${shown(on)}) and hardware (${shown(rest.hardware)}), which mean the same; give one`,
  );
}

function calibrated(request: object, calibration: HardwareCalibration | undefined): object {
  return calibration === undefined ? request : withCalibration(request, calibration);
}

export function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null;
}

/**
 * Finds settings that the layout replaced, each with its new value. `written` is the request as the user wrote it, `asked` is
 * the parsed request, with the values of a config.
 */
function requestReadings(written: object, asked: Asked, layout: Layout): readonly Assumed[] {
  const { model, pp, ep, schedule, recompute, optimizer } = layout;
  const rows: readonly (readonly [setting: string, asked: unknown, planned: unknown])[] = [
    ['schedule', asked.schedule, pp > 1 || asked.schedule === '1F1B' ? schedule : 'one stage'],
    ['virtualStages', asked.virtualStages, layout.virtualStages],
    ['parallel.sequenceParallel', asked.sequenceParallel, layout.sequenceParallel],
    ['parallel.asyncTensorParallel', asked.asyncTensorParallel, layout.asyncTensorParallel],
    ['parallel.fp8AllGather', asked.fp8AllGather, layout.fp8AllGather],
    ['parallel.dpShard', asked.dpShard, layout.shards],
    ['parallel.dispatcher', asked.dispatcher, ep > 1 ? layout.dispatcher : 'without expert parallelism'],
    ['parallel.overlapExperts', asked.overlapExperts, ep > 1 ? layout.overlapExperts : false],
    [
      'cudaGraph',
      asked.cudaGraph,
      asked.cudaGraph === 'router' && model.moe === null ? 'none' : layout.cudaGraph,
    ],
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
    ...(layout.baseWeights === null ? [] : [DEQUANTIZED]),
    ...factsOf(written),
  ];
}

const DEQUANTIZED: Assumed = {
  setting: 'baseWeights',
  says: 'baseWeights nf4 is planned in memory only: the plan leaves out the time in which a step converts the 4-bit weights for each matmul',
};

function factsOf(written: object): Assumed[] {
  const model = 'model' in written ? written.model : undefined;
  if (typeof model !== 'object' || model === null) return [];
  const facts = Object.keys(model).filter((key) => PUBLISHED_FACTS.includes(key));
  const variants = Object.entries(model).flatMap(([key, value]) =>
    ourKey(key) === 'inChannels' && typeof value === 'object' && value !== null
      ? [
          {
            setting: `model.${key}`,
            says: `model.${key} ${JSON.stringify(value)} is planned with its first value`,
          },
        ]
      : [],
  );
  if (facts.length === 0) return variants;
  const says = `model: ${facts.join(', ')} are not read, because they follow from the kind or do not affect the plan`;
  return [...variants, { setting: facts.map((key) => `model.${key}`).join(', '), says }];
}
