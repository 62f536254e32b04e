import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import { issuesMessage, requirePlain, valueAt } from '../config/config-issue';
import { knownModel } from '../config/model-names';
import { presetNamed, readNamed } from '../config/named-config';
import { PUBLISHED_TRAINING } from '../config/named-models';
import { nearest } from '../config/nearest';
import { requireKnownOptions } from '../config/option-names';
import type { ConfigIssue } from '../config/setting';
import { modelShape } from '../config/settings/model';
import { knownKeys, parseTrainConfig, type TrainConfig } from '../config/train-config';
import { ConfigError } from '../core/errors';
import { ownValue } from '../core/own-value';
import { shown } from '../core/shown';
import type { Reading } from '../dialects/rows/reading';
import { isBatchLine, ofBatchLine, ourKey, TODAY } from './batch-line';
import type { Planned } from './cost-of';
import { meantBoard } from './hardware';
import { type HardwareCalibration, parseCalibration, withCalibration } from './hardware-calibration';
import type { Layout } from './layout';
import { type Asked, layoutAsked } from './layout-of';
import { type Assumed, askedByConfig, type ConfigReading, readingOf } from './layout-of-config';
import { hubModelAt, leftOutOf, ownModelRefused } from './models';
import { isPlaceKey, type Place, parsePlace, placeSchema, type ReadPlace } from './place';
import { type PlannedConfig, type PlannedModel, type PlanObject, plannedModel } from './planned-model';
import { predict } from './predict';
import { isReading, readingInput, readingPlace, requireReadable, requireWorld } from './reading-input';

/**
 * The input of `plan`: a TrainConfig, which may also have the keys of a place, the reading of another program's settings
 * (sl.readConfig), or a name. The name is that of a published model ('llama3-8b', 'Qwen/Qwen3-32B'), of a preset, of a model's
 * config.json or its folder, or of a file that contains a TrainConfig.
 */
export type PlanInput = PlanObject | Reading | string;

/** Where a config is planned: a kind of GPU by name or by figures, or a place. Keys of a config replace those of the input. */
export type PlanPlace = PlanObject | NonNullable<Place['on']>;

/** Options of a plan. */
export interface PlanOptions {
  /** The calibration that `shardlab doctor --calibrate` wrote, as an object. */
  readonly calibration?: HardwareCalibration | undefined;
}

export const PLAN_OPTIONS: readonly (keyof PlanOptions)[] = ['calibration'];

/** A prediction, the settings that are planned with other values, and the config and place that give this prediction again. */
export interface PlannedInput extends Planned, ConfigReading {
  readonly config: PlannedConfig;
  readonly place: Place;
}

/**
 * Plans an input. `where` is the hardware's name, or a place.
 * Throws: CONFIG if the input is not a TrainConfig, is wrong, or cannot be planned.
 */
export function plannedInput(
  input: PlanInput,
  where: PlanPlace = {},
  options: PlanOptions = {},
): PlannedInput {
  requireKnownOptions('plan(input, place, { … })', options, PLAN_OPTIONS);
  const { written, place } = partsOf(inputAt(input, where));
  const at = calibratedPlace(place, options);
  return { ...changedInput({ ...written, ...at }, {}, {}), config: written, place: at };
}

/** Plans an input with changed settings. Throws: CONFIG as `plannedInput` does. */
export function changedInput(input: PlanInput, where: PlanPlace, changes: Asked): Planned & ConfigReading {
  const read = readPlan(inputAt(input, where));
  const layout = layoutAsked({ ...read.asked, ...changes });
  const assumed = [...read.assumed, ...placeReadings(read.asked, layout)];
  return { layout, prediction: predict(layout), assumed, withoutEffect: read.withoutEffect };
}

/** Returns a place whose hardware has the measured figures of the options' calibration. */
export function calibratedPlace(place: Place, { calibration }: PlanOptions): Place {
  return calibration === undefined ? place : withCalibration(place, parseCalibration(calibration));
}

/** Returns the layout of a config with the keys of its place. Throws: CONFIG as `plannedInput` does. */
export function layoutOf(input: PlanObject): Layout {
  return layoutAsked(readPlan(input).asked);
}

/** What an input says about a layout, and its settings that are planned with other values. */
interface PlanRead extends ConfigReading {
  readonly asked: Asked;
  /** The checked config; its model is 'own' if only a plan knows the model. */
  readonly config: TrainConfig;
}

/** Reads the keys of a config and of its place. Throws: CONFIG as `plannedInput` does, with everything that is wrong. */
export function readPlan(input: object): PlanRead {
  const { written, place: given } = partsOf(input);
  const issues: ConfigIssue[] = [...strangeKeys(written)];
  const own = withoutKeys(written, issues);
  const place = gathered(issues, () => parsePlace(given));
  const model = gathered(issues, () => plannedModel(own.model, valueAt(own, ['parallel', 'pp'])));
  const rest = withoutKeys(own, issues);
  const config = gathered(issues, () => parseTrainConfig(model === undefined ? rest : unbuilt(rest, model)));
  if (place === undefined || config === undefined || issues.length > 0)
    throw new ConfigError(issuesMessage(issues), { issues });
  if (model === undefined && modelShape(config).kind === 'own') throw ownModelRefused();
  const asked = { ...askedByConfig(config, place), ...askedByPlace(place, model?.attention) };
  const reading = readingOf(config, model === undefined ? own : {}, place);
  if (model === undefined) return { config, asked, ...reading };
  requireNoAdapters(config);
  const leftOut = leftOutOf(model.shape);
  const assumed = [...reading.assumed, ...(leftOut === null ? [] : [{ setting: 'model', says: leftOut }])];
  return { config, asked: { ...asked, model: model.shape }, ...reading, assumed };
}

/** Returns settings without those that have an issue, so that each is reported once. */
function withoutKeys(settings: Readonly<Record<string, unknown>>, issues: readonly ConfigIssue[]) {
  return Object.fromEntries(
    Object.entries(settings).flatMap(([key, value]) => {
      const wrong = issues.filter(({ path }) => path[0] === key);
      if (wrong.length === 0) return [[key, value]];
      if (key !== 'parallel') return [];
      const kept = Object.entries(Object(value)).filter(
        ([part]) => !wrong.some(({ path }) => path[1] === part),
      );
      return [[key, Object.fromEntries(kept)]];
    }),
  );
}

/** Returns a result; if there are issues instead, adds them to `issues` and returns undefined. */
function gathered<Result>(issues: ConfigIssue[], read: () => Result): Result | undefined {
  try {
    return read();
  } catch (error) {
    const found = error instanceof ConfigError ? error.details.issues : undefined;
    if (!Array.isArray(found)) throw error;
    issues.push(...(found as ConfigIssue[])); // checks of settings make the issues
    return undefined;
  }
}

/** Stands in for a model that only a plan knows, so that the rules about models that are built here do not apply. */
function unbuilt(written: object, { isPublished }: PlannedModel): object {
  return { ...(isPublished ? PUBLISHED_TRAINING : {}), ...written, model: { kind: 'own' }, data: 'function' };
}

/** Returns the issues of keys that only older lines have, or that are similar to a place's key, or that belong into the place. */
function strangeKeys(written: Readonly<Record<string, unknown>>): readonly StrangeKey[] {
  const within = Object.keys(Object(written.parallel))
    .filter(isPlaceKey)
    .map((key) => ({
      path: ['parallel', key],
      message: `unknown key; write ${key} beside the model, or in the place`,
    }));
  const keys = Object.keys(written).flatMap((key) => {
    if (knownKeys('').includes(key)) return [];
    const today = ownValue(TODAY, key);
    if (today !== undefined) return [{ path: [key], message: `unknown key; write ${today}` }];
    if (nearest(key, knownKeys('')) !== undefined) return [];
    const near = nearest(key, [...Object.keys(placeSchema.shape), ...Object.keys(TODAY)]);
    return near === undefined ? [] : [{ path: [key], message: `unknown key; did you mean "${near}"?` }];
  });
  return [...keys, ...within];
}

type StrangeKey = ConfigIssue & { readonly path: readonly string[] };

/** Returns the keys of a config and those of a place; keys that are undefined are left out. */
export function partsOf(input: object): {
  readonly written: Readonly<Record<string, unknown>>;
  readonly place: Place;
} {
  const entries = Object.entries(keysWithValues(input));
  return {
    written: Object.fromEntries(entries.filter(([key]) => !isPlaceKey(key))),
    place: Object.fromEntries(entries.filter(([key]) => isPlaceKey(key))), // `parsePlace` checks the values
  };
}

/** Returns what a place says about a layout. `attention` is the setting of a model that only a plan knows. */
function askedByPlace(
  { fp8, attention, ...place }: ReadPlace,
  ofModel: 'eager' | 'flash' | undefined,
): Asked {
  const kernel = attention ?? (ofModel === undefined ? undefined : KERNELS[ofModel]);
  return {
    ...place,
    ...(fp8 === true ? { precision: 'fp8' } : {}),
    ...(kernel === undefined ? {} : { attention: kernel }),
  };
}

const KERNELS = { eager: 'unfused', flash: 'flash' } as const;

function requireNoAdapters({ lora, frozen }: TrainConfig): void {
  if (lora === null && frozen.length === 0) return;
  throw new ConfigError(
    `${lora === null ? 'frozen' : 'lora'}: the modules of this model are not built here, so the trained share is not known; leave it out, and give ` +
      "trainedShare (the trained parameters divided by the model's parameters) in the place",
  );
}

/**
 * Returns an input with the keys of its place. A reading has both, and keys of `where` replace those of the reading's place.
 * Throws: CONFIG for a reading with lines that are errors.
 */
export function inputAt(input: unknown, where: PlanPlace): object {
  const asked = inputOf(input);
  const place = placeOf(where);
  if (!isReading(input)) return withPlace(asked, place);
  requireWorld(input, 'gpus' in place ? place.gpus : undefined);
  return withPlace(withPlace(asked, readingPlace(input)), place);
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
  throw new ConfigError(`a plan needs a TrainConfig or a model's name, got ${shown(asked)}`);
}

/** Replaces the input's keys by the place's keys that have a value. Keys within `parallel` are replaced one by one. */
export function withPlace(input: object, place: object): object {
  const written: Readonly<Record<string, unknown>> = { ...input };
  const given: Readonly<Record<string, unknown>> = keysWithValues(place);
  const isBoth = isObject(written.parallel) && isObject(given.parallel);
  return {
    ...written,
    ...given,
    ...(isBoth && { parallel: { ...Object(written.parallel), ...keysWithValues(Object(given.parallel)) } }),
    // Both names of the hardware have one meaning, and the place decides.
    ...('hardware' in given && !('on' in given) && { on: undefined }),
    ...('on' in given && !('hardware' in given) && { hardware: undefined }),
  };
}

function keysWithValues(object: object): Readonly<Record<string, unknown>> {
  return Object.fromEntries(Object.entries(object).filter(([, value]) => value !== undefined));
}

/**
 * Returns the plan's input for a name: a preset, a published model, a model's config.json or its folder, or a file with a
 * TrainConfig. Throws: CONFIG with file, line, key and the nearest known key.
 */
export function planInputNamed(name: string, cwd = '.'): object {
  const isPath = existsSync(resolve(cwd, name));
  const model = isPath ? null : knownModel(name);
  const known = presetNamed(name) ?? (model === null ? undefined : { model });
  if (known !== undefined) return known;
  const published = isPath ? hubModelAt(name, cwd) : undefined;
  if (published !== undefined) return { ...PUBLISHED_TRAINING, attention: 'flash', model: published };
  const { input, wrong } = readNamed(name, cwd);
  if (typeof input !== 'object' || input === null || Array.isArray(input))
    throw new ConfigError(`${name} contains no settings; write model, parallel, batch, on and gpus`);
  try {
    const asked = isBatchLine(input) ? ofBatchLine(input) : input;
    readPlan(asked);
    return asked;
  } catch (error) {
    const issues = error instanceof ConfigError ? error.details.issues : undefined;
    // The type is known, because checks of settings make the issues.
    throw Array.isArray(issues) ? wrong(issues as Parameters<typeof wrong>[0], ourKey) : error;
  }
}

/** Returns a place as an object; the name or description of a GPU is short for { on }. */
export function placeOf(place: PlanPlace): PlanObject {
  if ((typeof place !== 'object' && typeof place !== 'string') || place === null || Array.isArray(place)) {
    throw new ConfigError(
      `give the hardware's name, such as 'H100-80G', or { on: 'H100-80G', gpus: 8, ... }, got ${shown(place)}`,
    );
  }
  requirePlain(place);
  return typeof place === 'string' || 'like' in place ? { on: place } : place;
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null;
}

/** Finds settings of the place that the layout replaced, each with its new value. */
function placeReadings(asked: Asked, layout: Layout): readonly Assumed[] {
  const { ep, model } = layout;
  const withExperts = <Value>(value: Value): Value | string =>
    ep > 1 ? value : 'without expert parallelism';
  const rows: readonly (readonly [setting: string, asked: unknown, planned: unknown])[] = [
    ['asyncTensorParallel', asked.asyncTensorParallel, layout.asyncTensorParallel],
    ['fp8AllGather', asked.fp8AllGather, layout.fp8AllGather],
    ['dispatcher', asked.dispatcher, withExperts(layout.dispatcher)],
    ['overlapExperts', asked.overlapExperts, ep > 1 ? layout.overlapExperts : false],
    [
      'cudaGraph',
      asked.cudaGraph,
      asked.cudaGraph === 'router' && model.moe === null ? 'none' : layout.cudaGraph,
    ],
  ];
  const changed = rows.filter(([, value, planned]) => value !== undefined && value !== planned);
  return [
    ...changed.map(([setting, value, planned]) => ({
      setting,
      says: `${setting} ${value} has no effect here: planned as ${planned}`,
    })),
    ...boardReading(asked.hardware),
    ...(layout.baseWeights === null ? [] : [DEQUANTIZED]),
  ];
}

/** Says which board a short name of a GPU means. */
function boardReading(hardware: Asked['hardware']): readonly Assumed[] {
  const name = typeof hardware === 'object' ? hardware.like : hardware;
  const meant = name === undefined ? undefined : meantBoard(name);
  return meant === undefined ? [] : [{ setting: 'on', says: `on: ${meant}` }];
}

const DEQUANTIZED: Assumed = {
  setting: 'baseWeights',
  says: 'baseWeights nf4 is planned in memory only: the plan leaves out the time in which a step converts the 4-bit weights for each matmul',
};
