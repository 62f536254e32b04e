import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import {
  anyValue,
  kernelOf,
  knownModel,
  PUBLISHED_TRAINING,
  parseOptions,
  presetNamed,
  readModelFiles,
  readNamed,
  refuseNull,
  requirePlain,
  type ShapeOf,
  strategyNamed,
  type TrainConfigInput,
} from '../config';
import { ConfigError, isRecord, shown } from '../core';
import { buildModel, chooseTrained } from '../nn';
import { foreignOf, type Reading, readConfig, whereOf } from '../programs';
import { ofAnyLine, ourKey } from './batch-line';
import { type HardwareCalibration, parseCalibration, withCalibration } from './hardware-calibration';
import { hubModelAt } from './hub-files';
import type { Layout } from './layout';
import { checkedLayout, type Held, type PlanSettings } from './layout-of-config';
import { isPlaceKey, type Place } from './place';
import { type PlanObject, plannedModel } from './planned-model';
import {
  checkedSettings,
  type PlannedInput,
  type PlanPlace,
  type PlanRead,
  partsOf,
  placeOf,
  plannedSettings,
  readSettings,
  type Surroundings,
  withPlace,
} from './read-settings';
import { STACK_RULES } from './stack-rules';

/**
 * The input of `plan`: a TrainConfig, which may also have the keys of a place, the reading of another program's settings
 * (sl.readConfig), or a name. The name is that of a published model ('llama3-8b', 'Qwen/Qwen3-32B'), of a preset, of a model's
 * config.json or its folder, or of a file that contains a TrainConfig or another program's settings.
 */
export type PlanInput = PlanObject | Reading | string;

/** Options of a plan. */
export interface PlanOptions {
  /** The calibration that `shardlab doctor --calibrate` wrote, as an object. */
  readonly calibration?: HardwareCalibration | undefined;
}

/** The shape of `PlanOptions`; `parseCalibration` checks the calibration. */
export const PLAN_OPTIONS = { calibration: anyValue<HardwareCalibration>() } satisfies ShapeOf<PlanOptions>;

/**
 * Plans an input. `where` is the hardware's name, or a place.
 * Throws: CONFIG if the input is not a TrainConfig, is wrong, or cannot be planned.
 */
export function plannedInput(
  input: PlanInput,
  where: PlanPlace = {},
  options: PlanOptions = {},
): PlannedInput {
  parseOptions('plan(input, place, { … })', options, PLAN_OPTIONS);
  const { written, place } = partsOf(inputAt(input, where));
  return changedInput({ ...written, ...calibratedPlace(place, options) }, {});
}

/** Plans an input with changed values. Throws: CONFIG as `plannedInput` does. */
export function changedInput(input: PlanInput, where: PlanPlace, held: Held = {}): PlannedInput {
  return plannedSettings(inputAt(input, where), OF_PROCESS, held);
}

/** Returns a place whose hardware has the measured figures of the options' calibration. */
export function calibratedPlace(place: Place, { calibration }: PlanOptions): Place {
  return calibration === undefined ? place : withCalibration(place, parseCalibration(calibration));
}

/** Returns the layout of a config with the keys of its place. Throws: CONFIG as `plannedInput` does. */
export function layoutOf(input: PlanObject): Layout {
  return checkedLayout(readPlan(input));
}

/** Reads the keys of a config and of its place. Throws: CONFIG with everything that is wrong. */
export function readPlan(input: object): PlanRead {
  return readSettings(input, OF_PROCESS);
}

/** Whether only plans know a model: there are formulas for its sizes, but its blocks are not built here. */
export function isPlannedOnly(model: unknown): boolean {
  return plannedModel(model, OF_PROCESS) !== undefined;
}

/** What a process has: see [Note: surroundings]. */
const OF_PROCESS: Surroundings = { readModelFiles, modelAt: hubModelAt, trainedShare: countTrainedShare };

/** Returns the share of parameters that train, with adapters. Builds the model without values to count the parameters. */
function countTrainedShare(settings: PlanSettings): number {
  const model = buildModel(settings);
  const numParams = model.numParams();
  chooseTrained(model, settings);
  const trained = model.parameters().filter(({ requiresGrad }) => requiresGrad);
  return settings.trainedShare ?? trained.reduce((sum, { size }) => sum + size, 0) / numParams;
}

/**
 * Returns an input with the keys of its place. A reading has both, and keys of `where` replace those of the reading's place.
 * Throws: CONFIG for a reading with lines that are errors.
 */
export function inputAt(input: unknown, where: PlanPlace): object {
  const place = placeOf(where);
  const reading = isReading(input) ? input : readingNamed(input, place.gpus);
  if (reading === null) return withPlace(inputOf(input), place);
  requireReadable(reading);
  requireWorld(reading, place);
  return withPlace(withPlace(withRows(reading, place.gpus), readingPlace(reading)), place);
}

/** Returns a reading's config; on another number of ranks, a step has the same rows. Throws: CONFIG if they cannot be shared. */
function withRows({ world, place, config }: Reading, gpus: number | undefined): TrainConfigInput {
  const { globalBatch } = place;
  if (world === null || globalBatch === undefined || gpus === undefined || gpus === world) return config;
  const { accumulation = 1, batch = 1 } = config;
  const passes = (accumulation * world) / gpus;
  if (Number.isInteger(passes)) return { ...config, accumulation: passes };
  const rows = (batch * world) / gpus;
  if (accumulation === 1 && Number.isInteger(rows)) return { ...config, batch: rows };
  throw new ConfigError(
    `a step has ${globalBatch} rows of all ranks together, and ${gpus} GPUs cannot share them in passes of ${batch} rows per rank; give another number of GPUs, or batch and accumulation`,
  );
}

/** Returns the reading of another program's file or command; null if the input names neither. */
function readingNamed(input: unknown, world: number | undefined): Reading | null {
  if (typeof input !== 'string' || hubModelAt(input, '.') !== undefined) return null;
  const foreign = foreignOf([input], '.');
  return foreign === null ? null : readConfig(foreign, { world });
}

/** Returns the input of a name, or any other object as it is. Throws: CONFIG for anything else. */
function inputOf(input: unknown): object {
  const settings = typeof input === 'string' ? planInputNamed(input) : input;
  requirePlain(settings);
  if (typeof settings !== 'object' || settings === null || Array.isArray(settings))
    throw new ConfigError(`a plan needs a TrainConfig or a model's name, got ${shown(settings)}`);
  refuseNull('plan', settings, isPlaceKey);
  return settings;
}

/** Whether an input is the reading of another program's settings, as sl.readConfig returns it. */
function isReading(input: unknown): input is Reading {
  return isRecord(input) && ['config', 'lines', 'place'].every((key) => key in input);
}

/** Throws: CONFIG with every line that is an error. If no line is a setting, refused lines count as errors. */
export function requireReadable({ config, lines }: Reading): void {
  const isRefused = Object.keys(config).length === 0;
  const wrong = lines.filter(({ effect }) => effect === 'error' || (isRefused && effect === 'refused'));
  if (wrong.length > 0)
    throw new ConfigError(wrong.map((line) => `${whereOf(line)}: ${line.key}: ${line.why}`).join('\n'));
}

/** Returns the place where a reading runs, and the model and its sequences if only a plan has them. */
function readingPlace(reading: Reading): PlanObject {
  const { world, machines, place, config } = reading;
  const { compile, compileLoss, dropout, isFp8, asyncTensorParallel, seq } = place;
  const name = typeof config.model === 'string' ? config.model : place.model;
  const stack = stackOf(reading);
  return {
    ...(world !== null && { gpus: world }),
    ...(stack !== undefined && { stack }),
    ...(place.model !== undefined && place.attention === 'eager' && { attention: kernelOf(place.attention) }),
    ...(asyncTensorParallel === true && { asyncTensorParallel }),
    ...(world !== null && machines !== null && machines > 1 && { gpusPerNode: world / machines }),
    ...(name !== undefined && { model: seq === undefined ? name : { like: name, seq } }),
    ...(compile === true && { compile }),
    ...(compileLoss !== undefined && { compileLoss }),
    ...(dropout !== undefined && { dropout }),
    ...(isFp8 === true && { fp8: true }),
  };
}

/** Returns the program that trains, if lines name it and plans know how it runs this layout. */
function stackOf({ config: { parallel = {} }, place: { stack } }: Reading): Place['stack'] {
  if (stack === undefined) return undefined;
  const rules = STACK_RULES[stack];
  const { strategy = 'FULL_SHARD', tp = 1, cp = 1, cpKind = 'ulysses' } = parallel;
  const isKnown = rules.strategies.some((name) => name === strategyNamed(strategy));
  return isKnown && (tp === 1 || rules.tensorParallel) && (cp === 1 || rules.contextParallel.includes(cpKind))
    ? stack
    : undefined;
}

/** Returns the number of ranks that one copy of the model needs. */
export function degreesOf({ config: { parallel = {} } }: Reading): number {
  return (parallel.tp ?? 1) * (parallel.cp ?? 1) * (parallel.pp ?? 1);
}

/** Throws: CONFIG if the reading's rows per rank depend on the number of ranks, and the reading does not have this number. */
function requireWorld({ world, place: { globalBatch } }: Reading, { gpus }: PlanObject): void {
  if (world !== null || globalBatch === undefined || gpus === undefined) return;
  throw new ConfigError(
    `a step has ${globalBatch} rows of all ranks together, and the settings do not state the number of ranks, so the rows per rank are not known; ` +
      `write sl.readConfig(FILE, { world: ${String(gpus)} })`,
  );
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
  if (!isRecord(input) || Array.isArray(input) || Object.keys(input).length === 0)
    throw new ConfigError(`${name} contains no settings; write model, parallel, batch, on and gpus`);
  try {
    const planInput = ofAnyLine(input);
    checkedSettings(planInput, OF_PROCESS);
    return planInput;
  } catch (error) {
    const issues = error instanceof ConfigError ? error.details.issues : undefined;
    // The type is known, because checks of settings make the issues.
    throw Array.isArray(issues) ? wrong(issues as Parameters<typeof wrong>[0], ourKey) : error;
  }
}
