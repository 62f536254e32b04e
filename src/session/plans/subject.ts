import {
  fields,
  isPythonModel,
  parseTrainConfig,
  requireKind,
  type TrainConfig,
  type TrainConfigInput,
} from '../../config';
import { warnOnce } from '../../core';
import { ownOnMeta, warnOnStderr } from '../../launch';
import {
  type AnyLayout,
  type ConfigReading,
  calibratedPlace,
  countedPlan,
  inputAt,
  type MetaOwn,
  ownModelRefused,
  type Place,
  type PlanInput,
  type Planned,
  type PlannedConfig,
  type PlanObject,
  type PlanOptions,
  type PlanPlace,
  partsOf,
  plannedInput,
  type TracedWork,
  tracedWork,
} from '../../planner';
import { tracePython } from '../../torch';
import type { PreparedData } from '../../training';
import { type OwnWork, splitInput, type TrainInput } from './own';

/** What a plan is about: a config, whose model, loss and data may be the user's own, and its place. */
export interface Subject {
  /** The config as the user wrote it, without the keys of the place. */
  readonly written: TrainInput | TrainConfigInput;
  /** The same config without functions. */
  readonly config: PlannedConfig;
  readonly place: Place;
  /** Runs the user's functions in a dry run; undefined if there are none. */
  readonly own: MetaOwn | undefined;
  /** Whether the model is the user's own, so that there are no formulas for it. */
  readonly isOwnModel: boolean;
}

/** A subject without functions of the user. */
export interface PredictedSubject extends Subject {
  readonly written: TrainConfigInput;
  readonly own: undefined;
  readonly isOwnModel: false;
}

export function predictedSubject(config: PlannedConfig, place: Place): PredictedSubject {
  const written = config as TrainConfigInput; // `job.train` refuses a model that only a plan knows
  return { written, config, place, own: undefined, isOwnModel: false };
}

/** Reads the input of a plan. Throws: CONFIG for what is no input or no place. */
export function subjectOf(
  input: PlanInput | TrainInput,
  where: PlanPlace = {},
  options: PlanOptions = {},
): Subject {
  requireKind('plan', 'the third argument', options, fields);
  const { written, place } = partsOf(inputAt(input, where));
  const { config, own } = splitInput(written);
  const traced = own === undefined && isPythonModel(config.model) ? tracedInput(config) : undefined;
  return {
    written: written as TrainInput, // the parser has checked it, or checks it before it is planned
    config: traced?.config ?? config,
    place: calibratedPlace(place, options),
    own: traced?.own ?? (own && ownOnMeta(own.functions)),
    isOwnModel: traced !== undefined || own?.sources.model != null,
  };
}

/** Runs a model in Python on shapes; from here on, its trace is a model of the user's own. Throws: CONFIG as `tracePython` does. */
function tracedInput(config: TrainConfigInput): TracedWork {
  return tracedWork(config, tracePython(parseTrainConfig(config)));
}

/** A run's config, its functions and data, and the number of its ranks. */
export interface RunParts {
  readonly config: TrainConfig;
  readonly own: OwnWork | undefined;
  readonly data: PreparedData | undefined;
  readonly world: number;
}

/** Returns the plan's subject of a run at another place, which has as many GPUs as the run has ranks if it names no number. */
export function subjectOfRun(
  { config, own, data, world }: RunParts,
  where: PlanPlace = {},
  options: PlanOptions = {},
): Subject {
  const subject = subjectOf({ ...config, gpus: world }, where, options);
  if (own === undefined) return subject;
  const written = withFunctions(subject.config, own.functions);
  const isOwnModel = own.sources.model !== null;
  return { ...subject, written, own: ownOnMeta(own.functions, data), isOwnModel };
}

/** Returns a config with the functions that a run's config had; functions of a file stay out. */
function withFunctions(config: PlannedConfig, functions: OwnWork['functions']): TrainInput {
  const { model, loss, data, validation } = functions ?? {};
  const given = {
    model,
    loss,
    data: data && validation ? { train: data, validation } : data,
  };
  const entries = Object.entries(given).filter(([, one]) => one != null);
  return { ...config, ...Object.fromEntries(entries) } as TrainInput; // the run's config had these functions
}

/** Whether an input's model is the user's own. */
export function hasOwnModel(input: unknown): boolean {
  if (typeof input !== 'object' || input === null) return false;
  return ('model' in input && isPythonModel(input.model)) || splitInput(input).own?.sources.model != null;
}

/** Predicts a plan's subject, or counts it if its model is the user's own: see [Note: counted plans]. */
export function plannedSubject({ config, place, own, isOwnModel }: Subject): AnyPlanned {
  if (!isOwnModel || own === undefined) return plannedInput({ ...config, ...place });
  const at = { place, warn: warnOnce(warnOnStderr) };
  return countedPlan(config as TrainConfigInput, own, at); // the config of an own model is a TrainConfig
}

export type AnyPlanned = Planned<AnyLayout> & Partial<ConfigReading>;

/** Returns the config with the keys of its place. Throws: CONFIG if the model is the user's own, because `what` needs formulas. */
export function predictedInput(what: string, { config, place, isOwnModel }: Subject): PlanObject {
  if (isOwnModel) throw ownModelRefused(what);
  return { ...config, ...place };
}
