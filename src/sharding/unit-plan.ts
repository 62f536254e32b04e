import { type ParallelConfig, STRATEGIES, type StrategyName } from '../config';
import {
  Experts,
  fitsPattern,
  type Module,
  modulesMatching,
  type Parameter,
  requireSelfContained,
} from '../nn';
import { anyWrapPolicy, modulesToWrap, type WrapPolicy, wrapPolicyOf } from './wrap-policy';

/** One unit of a config. */
export interface PlannedUnit {
  readonly module: Module;
  readonly strategy: StrategyName | 'IGNORED';
  /** The module's parameters, without the parameters of units that were planned earlier. */
  readonly parameters: readonly Parameter[];
}

/**
 * Whether a config's model is divided into units. If not, every rank has the whole model (DDP) and reduces gradients in
 * buckets.
 */
export function isInUnits({ strategy, unitStrategies, ignoredModules }: ParallelConfig): boolean {
  return (
    STRATEGIES[strategy].shardedAtRest.length > 0 || unitStrategies.length > 0 || ignoredModules.length > 0
  );
}

/**
 * Returns the units of a config: first the ignored modules, then the modules that the wrap policy chooses or unit
 * strategies name (inner modules first), then the model. Throws: CONFIG for a pattern without a matching module, and for a
 * named module that cannot be a separate unit.
 */
export function planUnits(model: Module, parallel: ParallelConfig): PlannedUnit[] {
  const ignoredModules = parallel.ignoredModules.flatMap((pattern) =>
    modulesMatching(model, pattern, 'parallel.ignoredModules'),
  );
  for (const module of ignoredModules) requireSelfContained([module], 'parallel.ignoredModules');
  const taken = new Set<Parameter>();
  const plan = (module: Module, strategy: PlannedUnit['strategy']): PlannedUnit => {
    const parameters = module.parameters().filter((parameter) => !taken.has(parameter));
    for (const parameter of parameters) taken.add(parameter);
    return { module, strategy, parameters };
  };
  return [
    ...ignoredModules
      .map((module) => plan(module, 'IGNORED'))
      .filter(({ parameters }) => parameters.length > 0),
    ...[...chosenModules(model, parallel, ignoredModules), model].map((module) =>
      plan(module, strategyOf(module, parallel, model)),
    ),
  ];
}

function chosenModules(model: Module, parallel: ParallelConfig, ignoredModules: readonly Module[]): Module[] {
  const named = parallel.unitStrategies.flatMap(({ modules }) =>
    modulesMatching(model, modules, 'parallel.unitStrategies'),
  );
  for (const module of named) requireSelfContained([module], 'parallel.unitStrategies');
  // Divided experts are separate units, because their gradients are reduced over other ranks than the gradients of their block.
  const policy = anyWrapPolicy(wrapPolicyOf(parallel.wrap, model), dividedExperts);
  const units = new Set([...modulesToWrap(model, policy, ignoredModules), ...named]);
  const ignored = new Set(ignoredModules.flatMap((module) => module.modules()));
  return model
    .modules()
    .reverse()
    .filter(
      (module) => module !== model && units.has(module) && !ignored.has(module) && !isElsewhere(module),
    );
}

/** Returns the first unit strategy whose pattern matches the module; without one, the model's strategy. */
function strategyOf(
  module: Module,
  { strategy, unitStrategies }: ParallelConfig,
  { path }: Module,
): StrategyName {
  const name = path === '' ? module.path : module.path.slice(path.length + 1);
  return unitStrategies.find(({ modules }) => fitsPattern(name, modules))?.strategy ?? strategy;
}

const dividedExperts: WrapPolicy = (module, recurse, nonwrappedNumel) =>
  recurse || (module instanceof Experts && module.owned !== null && nonwrappedNumel > 0);

/** Whether only other ranks have the module's parameters (an expert of other ranks). */
function isElsewhere(module: Module): boolean {
  const parameters = module.parameters();
  return parameters.length > 0 && parameters.every(({ size }) => size === 0);
}
