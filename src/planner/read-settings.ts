import {
  type ConfigIssue,
  checkConfig,
  configSchema,
  configWarnings,
  FORMS,
  isOwnModel,
  issuesMessage,
  modelShape,
  PUBLISHED_TRAINING,
  type ReadModelFiles,
  refuseNull,
  requirePlain,
  type TrainConfig,
  valueAt,
} from '../config';
import { ConfigError, isRecord, shown } from '../core';
import { type ConfigReading, configReadingOf, placeReadings } from './assumed';
import { TODAY } from './batch-line';
import type { Planned } from './cost-of';
import { checkedLayout, type Held, type Planable, type PlanSettings } from './layout-of-config';
import { leftOutOf, type ModelAt } from './models';
import { isPlaceKey, PLACE_FORMS, type Place, placeSchema, withHardware } from './place';
import { builtModel, type PlannedModel, type PlanObject, plannedModel } from './planned-model';
import { predict } from './predict';

/** Where a config is planned: a kind of GPU by name or by figures, or a place. Keys of a config replace those of the input. */
export type PlanPlace = PlanObject | NonNullable<Place['on']>;

/**
 * [Note: surroundings] What a plan asks of the program around it, because neither files nor modules are everywhere: in a page
 * there are none. `plan-input.ts` has the surroundings of a process, and `site/planner/plan.ts` those of a page. Everything that
 * `plannedSettings` uses imports neither files nor modules.
 */
export interface Surroundings {
  /** Returns a model of files with its sizes; see `readModelFiles`. */
  readonly readModelFiles: ReadModelFiles;
  /** Finds the model of a file; see `hubModelAt`. */
  readonly modelAt: ModelAt;
  /** Returns the share of a model's parameters that train under `frozen` or `lora`. Throws: CONFIG if it is not known. */
  trainedShare(settings: PlanSettings): number;
}

/** A prediction, and the settings that are planned with other values. */
export type PlannedInput = Planned & ConfigReading;

/** Plans settings with the keys of their place. Throws: CONFIG as `readSettings` does, and if degrees and batch do not fit. */
export function plannedSettings(input: object, surroundings: Surroundings, held: Held = {}): PlannedInput {
  const { settings, assumed, withoutEffect, ...model } = readSettings(input, surroundings);
  const layout = checkedLayout({ settings, ...model }, held);
  const all = [...assumed, ...placeReadings(settings, layout)];
  return { layout, prediction: predict(layout), assumed: all, withoutEffect };
}

/** What an input says about a layout, and its settings that are planned with other values. */
export interface PlanRead extends ConfigReading, Planable {}

/**
 * Reads the keys of a config and of its place. Throws: CONFIG with everything that is wrong, and as the functions of
 * `surroundings` do.
 */
export function readSettings(input: object, surroundings: Surroundings): PlanRead {
  const { settings, model, modelInput } = checkedSettings(input, surroundings);
  const { shape, kernel } = model ?? builtModel(settings);
  if (model !== undefined) requireNoAdapters(settings);
  const { assumed, withoutEffect } = configReadingOf(settings, model === undefined ? modelInput : undefined);
  const inputs = configWarnings({ model: settings.model }, settings, 1).filter((says) =>
    says.startsWith('model '),
  );
  const leftOut = [leftOutOf(shape) ?? [], inputs].flat();
  const all = [...assumed, ...leftOut.map((says) => ({ setting: 'model', says }))];
  return { settings: withTrainedShare(settings, surroundings), shape, kernel, assumed: all, withoutEffect };
}

/** Checks the keys of an input; its model may have no formulas. Throws: CONFIG with everything that is wrong. */
export function checkedSettings(input: object, surroundings: Surroundings) {
  const { written: config, place } = partsOf(input);
  const written: Readonly<Record<string, unknown>> = { ...config, ...place };
  const { model: modelInput, ...others } = written;
  const issues: ConfigIssue[] = [];
  const model = gathered(issues, () =>
    plannedModel(modelInput, { ...surroundings, pp: valueAt(written, ['parallel', 'pp']) }),
  );
  const own = issues.length > 0 ? others : written;
  const checked = checkConfig(
    model === undefined ? own : unbuilt(own, model),
    PLAN_SCHEMA,
    PLAN_WORDS,
    surroundings.readModelFiles,
  );
  if ('issues' in checked) issues.push(...checked.issues);
  if ('issues' in checked || issues.length > 0) throw new ConfigError(issuesMessage(issues), { issues });
  return { settings: withHardware(checked.config), model, modelInput };
}

const PLAN_SCHEMA = configSchema.extend(placeSchema.shape);

const PLAN_WORDS = {
  forms: { ...FORMS, ...PLACE_FORMS },
  moved: Object.fromEntries([
    ...Object.entries(TODAY),
    ...Object.keys(placeSchema.shape).map((key) => [
      `parallel.${key}`,
      `${key} beside the model, or in the place`,
    ]),
  ]),
};

/** Returns a result; if there are issues instead, adds them to `issues` and returns undefined. */
function gathered<Result>(issues: ConfigIssue[], read: () => Result): Result | undefined {
  try {
    return read();
  } catch (error) {
    const newIssues = error instanceof ConfigError ? error.details.issues : undefined;
    if (!Array.isArray(newIssues)) throw error;
    issues.push(...(newIssues as ConfigIssue[])); // checks of settings make the issues
    return undefined;
  }
}

/** Puts the share of parameters that train in place of the settings that choose them. */
function withTrainedShare(settings: PlanSettings, { trainedShare }: Surroundings): PlanSettings {
  const { frozen, lora } = settings;
  const isWhole = (frozen.length === 0 && lora === null) || isOwnModel(modelShape(settings));
  return isWhole ? settings : { ...settings, trainedShare: trainedShare(settings) };
}

/** Stands in for a model that only a plan knows, so that the rules about models that are built here do not apply. */
function unbuilt(written: object, { isPublished }: PlannedModel): object {
  return { ...(isPublished ? PUBLISHED_TRAINING : {}), ...written, model: { kind: 'own' }, data: 'function' };
}

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

function requireNoAdapters({ lora, frozen }: TrainConfig): void {
  if (lora === null && frozen.length === 0) return;
  throw new ConfigError(
    `${lora === null ? 'frozen' : 'lora'}: the modules of this model are not built here, so the trained share is not known; leave it out, and give ` +
      "trainedShare (the trained parameters divided by the model's parameters) in the place",
  );
}

/** Replaces the input's keys by the place's keys that have a value. Keys within `parallel` are replaced one by one. */
export function withPlace(input: object, place: object): object {
  const written: Readonly<Record<string, unknown>> = { ...input };
  const { on, hardware, ...placeSettings } = keysWithValues(place);
  const { parallel } = written;
  return {
    ...written,
    ...placeSettings,
    ...(isRecord(parallel) &&
      isRecord(placeSettings.parallel) && {
        parallel: { ...parallel, ...keysWithValues(placeSettings.parallel) },
      }),
    // Both names of the hardware have one meaning, and the place decides.
    ...((on !== undefined || hardware !== undefined) && { on, hardware }),
  };
}

/** Returns the keys that have a value. */
function keysWithValues(object: object): Readonly<Record<string, unknown>> {
  return Object.fromEntries(Object.entries(object).filter(([, value]) => value !== undefined));
}

/** Returns a place as an object; the name or description of a GPU is short for { on }. */
export function placeOf(place: PlanPlace): PlanObject {
  if ((typeof place !== 'object' && typeof place !== 'string') || place === null || Array.isArray(place)) {
    throw new ConfigError(
      `give the hardware's name, such as 'H100-80G', or { on: 'H100-80G', gpus: 8, ... }, got ${shown(place)}`,
    );
  }
  requirePlain(place);
  if (typeof place === 'object') refuseNull('plan', place, isPlaceKey);
  return typeof place === 'string' || 'like' in place ? { on: place } : place;
}
