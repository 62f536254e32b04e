import type { Importer } from '../../cell';
import { dataPlaceOf, type TrainConfig } from '../../config';
import { ConfigError, classOf } from '../../core';
import type { Recorder } from '../../ledger';
import { Module, withParameters } from '../../nn';
import type { Metrics, OwnParts } from '../../training';
import type { ProcessGroup } from '../../wire';
import type { OwnSources, Shipped } from '../control/messages';
import type { BatchNormWarning } from './batch-norm-warning';
import { compile, explainedAbsence, explainedError } from './compile';
import type { RankScope } from './scope';
import { withVariables } from './variables';

/** Buffers of cells and functions belong to no run. */
const NO_RUN = 0;

/** The functions that a user wrote for a training, ready to be called in this process. */
export interface OwnFunctions {
  readonly model: UserFunction | null;
  readonly loss: UserFunction | null;
  readonly data: UserFunction | null;
  readonly validation: UserFunction | null;
}

/** A function or a class of the user's. */
export type UserFunction = (...args: never[]) => unknown;

/** The run and the rank in which the user's functions are called. */
export interface OwnPlace {
  readonly run: number;
  readonly config: TrainConfig;
  /** The ranks of the run. */
  readonly group: ProcessGroup;
  /** The scope that the user's functions get. */
  readonly scope: RankScope;
  /** The number of ranks that these functions see. Default: the size of the group. */
  readonly worldSize?: number;
  readonly load: Importer;
  readonly recorder: Recorder;
  readonly batchNorms: BatchNormWarning;
}

/**
 * Loads the functions that a launcher sent, and makes the model. Throws: CONFIG if the result is not a model, and
 * errors of the functions.
 */
export async function makeOwn(sources: OwnSources, place: OwnPlace): Promise<OwnParts> {
  const { run, config, group, recorder, load } = place;
  const loaded = async (name: keyof OwnSources): Promise<UserFunction | null> => {
    const shipped = sources[name];
    return shipped === null ? null : loadShipped(shipped, name, load);
  };
  const functions = {
    model: await loaded('model'),
    loss: await loaded('loss'),
    data: await loaded('data'),
    validation: await loaded('validation'),
  };
  const scope = scopeOf(place);
  const batches = dataScopeOf(scope, config);
  if (functions.model === null) return ownParts(functions, null, scope, batches);
  // The model's buffers belong to the run.
  recorder.enter(run);
  try {
    const made = await callModel(functions.model, scope);
    const model = takeModel(made, config.seed);
    place.batchNorms.check(model, group.size);
    return ownParts(functions, model, scope, batches);
  } finally {
    recorder.enter(NO_RUN);
  }
}

/** Returns the functions of `run.evaluate`'s metrics. */
export function ownMetrics(
  sources: Readonly<Record<string, string>>,
  place: Pick<OwnPlace, 'scope' | 'group'>,
): Metrics {
  const scope = scopeOf(place);
  const metricOf = (name: string, source: string): Metrics[string] => {
    const metric = compile(source, `run.evaluate metrics.${name}`);
    return (output, batch) =>
      calling(`run.evaluate's metrics.${name}`, scope, () => metric(output, batch, scope));
  };
  return Object.fromEntries(Object.entries(sources).map(([name, source]) => [name, metricOf(name, source)]));
}

/** Returns the scope that functions of a run get: the rank's scope, with the run's ranks as the world, and variables of cells. */
function scopeOf({
  scope,
  group,
  worldSize = group.size,
}: Pick<OwnPlace, 'scope' | 'group' | 'worldSize'>): RankScope {
  return withVariables({ ...scope, worldSize, group });
}

/** Returns a scope whose rank and world count data-parallel ranks, because the other ranks of a replica get the same batch. */
export function dataScopeOf(scope: RankScope, config: TrainConfig): RankScope {
  return withVariables({ ...scope, ...dataPlaceOf(config, scope.rank, scope.worldSize) });
}

async function loadShipped(shipped: Shipped, name: string, load: Importer): Promise<UserFunction> {
  if ('source' in shipped) return compile(shipped.source, `job.train ${name}`);
  const { file, exported } = shipped;
  const all = await load(file, [exported]);
  const exportedValue: unknown = Object.entries(all).find(([key]) => key === exported)?.[1];
  if (typeof exportedValue === 'function') return exportedValue as UserFunction; // a function takes any arguments
  const names = Object.keys(all).filter((key) => key !== 'default' || exported === 'default');
  throw new ConfigError(
    `${name}: ${file} has no function or class '${exported}'; ${names.length === 0 ? 'it exports nothing' : `it exports ${names.join(', ')}`}`,
  );
}

/** Calls the user's function or class for a new model. Throws: CONFIG if the result is not a new module with parameters. */
export function callModel(model: UserFunction, scope: RankScope): unknown {
  const isClass = model.prototype instanceof Module;
  return calling("job.train's model", scope, () =>
    isClass ? Reflect.construct(model, []) : Reflect.apply(model, undefined, [scope]),
  );
}

/** Modules that a model function has returned. */
const USED = new WeakSet<Module>();

/**
 * Checks the result of a model function, and gives the module the config's seed unless the module has a seed. Throws: CONFIG
 * if the result is no module, has no parameters, or was returned before.
 */
export function takeModel(made: unknown, seed: number): Module {
  const example = 'return a new module, as model: ({ nn }) => new Net()';
  if (made === undefined || made === null) {
    throw new ConfigError(`job.train: model returned ${String(made)}; ${example}`);
  }
  // Modules are callable, so `typeof` is 'function' for a module too.
  if (typeof made === 'function' && !(made instanceof Module)) {
    throw new ConfigError(`job.train: model returned ${classOf(made)}; call it with new: ${example}`);
  }
  const module = withParameters(made, 'job.train: model');
  if (USED.has(module) || module.root !== module) {
    throw new ConfigError(
      `job.train: model returned a ${module.constructor.name} that is in use already; each run, reshard and trial builds its own: ${example}`,
    );
  }
  USED.add(module);
  const isUnmade = module.parameters().some(({ source }) => source !== null);
  if (seed !== 0 && module.seed === 0 && isUnmade) module.manualSeed(seed);
  return module;
}

/** Returns the parts of a trainer that call the user's functions. */
export function ownParts(
  { loss, data, validation }: OwnFunctions,
  model: Module | null,
  scope: RankScope,
  batchScope: RankScope,
): OwnParts {
  const batches = (name: string, make: UserFunction | null): OwnParts['data'] =>
    make &&
    ((index) =>
      calling(`job.train's ${name}`, batchScope, () => Reflect.apply(make, undefined, [batchScope, index])));
  return {
    model,
    loss:
      loss &&
      ((output, batch) =>
        calling("job.train's loss", scope, () => Reflect.apply(loss, undefined, [output, batch, scope]))),
    data: batches('data', data),
    validation: batches('data.validation', validation),
  };
}

/** Calls a function of the user. If the function uses a name that it does not see in its process, the error explains why. */
function calling(name: string, scope: RankScope, call: () => unknown): unknown {
  try {
    const result = call();
    return result instanceof Promise ? result.catch((error: unknown) => thrown(error, name, scope)) : result;
  } catch (error) {
    return thrown(error, name, scope);
  }
}

function thrown(error: unknown, name: string, scope: RankScope): never {
  throw explainedError(
    explainedAbsence(error, scope),
    `${name} is sent to ranks as source code: it sees its arguments, the rank's scope and the variables of %%ranks ` +
      'cells, not the variables and imports of the notebook; write the values into the function, or send them by await job.put({ … })',
  );
}
