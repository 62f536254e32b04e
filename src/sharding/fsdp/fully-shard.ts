import { STRATEGIES, type StrategyName } from '../../config';
import { ConfigError, ShardlabError } from '../../core';
import type * as tf from '../../core/tf';
import type { Engine, ForwardPhase, UnitHooks } from '../../engine';
import { type Buffer, contentsOf, Experts, Module, type Parameter, requireSelfContained } from '../../nn';
import type { Contents, DeviceMesh, ProcessGroup } from '../../wire';
import { broadcastBuffers, roundBuffers } from '../buffers';
import { castBoundaries } from '../precision/cast-boundaries';
import { FULL_PRECISION, halfOf, type MixedPrecision } from '../precision/mixed-precision';
import { type RankContext, type Replicas, runAsUnit } from '../run-as-unit';
import { heldParameters, replicasOf, requireSameParts } from '../same-parts';
import { rowTables } from '../sparse/row-masks';
import { FsdpSchedule, type PrefetchOptions } from './fsdp-schedule';
import { FsdpUnit } from './fsdp-unit';
import {
  IGNORED,
  placementOf,
  type ReshardAfterForward,
  RowsOfRanks,
  type UnitPlacement,
  type UnitSpec,
} from './unit-placement';
import { UnitState } from './unit-state';
import { unitsOf } from './units-of';

/** The objects that `fullyShard` needs from its rank; modules are sharded over the ranks of `group`. */
export interface ShardContext extends RankContext {
  /** The same ranks as a 2D mesh (replicate, shard), for hybrid strategies. Source: HSDP's mesh. */
  readonly mesh?: DeviceMesh | undefined;
  /** Subgroups for an integer `reshardAfterForward`, shared by the units; default: new subgroups for each call. */
  readonly rows?: RowsOfRanks | undefined;
}

/**
 * Options of `fullyShard`. Source: torch.distributed.fsdp.fully_shard, and FullyShardedDataParallel for options that
 * fully_shard does not have.
 */
export interface FullyShardOptions {
  /** What is sharded. Default FULL_SHARD, or HYBRID_SHARD on a mesh of two axes. */
  readonly strategy?: StrategyName | undefined;
  /**
   * true: frees whole parameters after forward, as FULL_SHARD; false: frees them only after backward, as SHARD_GRAD_OP;
   * n: reshards them over n consecutive ranks. The default depends on the strategy (FULL_SHARD: true except for the root).
   */
  readonly reshardAfterForward?: ReshardAfterForward;
  /**
   * Only the root's setting counts. true (default; torch: false): the next unit is gathered during this unit's forward;
   * false: it is gathered when its own forward begins.
   */
  readonly forwardPrefetch?: boolean | undefined;
  /** When backward gathers the next unit; null: no prefetch. Only the root's setting counts. Default BACKWARD_PRE. */
  readonly backwardPrefetch?: 'BACKWARD_PRE' | 'BACKWARD_POST' | null | undefined;
  /** Whether at most two gathers are in flight. Only the root's setting counts. Default true. */
  readonly limitAllGathers?: boolean | undefined;
  /** Inner modules to exclude from sharding: their parameters stay whole, and their gradients are not reduced. */
  readonly ignoredModules?: readonly Module[] | undefined;
  /** Sends rank 0's parameters and buffers to all ranks before sharding. */
  readonly syncModuleStates?: boolean | undefined;
  /** The dtypes of parameters, gradients and outputs. Default float32. */
  readonly precision?: MixedPrecision | undefined;
  /** Reduces gradients of embedding rows and experts only if a rank used them. Source: DeepSpeed's sparse_gradients. */
  readonly sparseGradients?: boolean | undefined;
  /**
   * If no rank has a gradient for a parameter, the optimizer updates the parameter with a gradient of zero. Default false: the
   * parameter does not change.
   * Source: FSDP's flat parameter.
   */
  readonly missingAreZeros?: boolean | undefined;
  /** Stores shards of parameters and gradients on the host, and runs the optimizer there. Source: CPUOffloadPolicy. */
  readonly offloadParameters?: boolean | undefined;
}

/**
 * Makes one unit of the module's parameters, except the parameters of units inside the module. The parameters are sharded at
 * rest and gathered for forward and backward, and their gradients are reduced to shards. Call `fullyShard` on inner modules
 * first, and on the root last. A list of modules makes one unit of all their parameters, as torch's fully_shard([norm, head]): see
 * [Note: units of several modules]. Returns the module or the list. A rank initialises only its shard of deferred parameters: [Note: deferred
 * values].
 * Throws: CONFIG for a scalar parameter, and if a module outside of this module also uses one of the parameters or holds one of
 * the modules inside; for a list that is empty, or has a module twice, inside another one or with a unit of its own. The first
 * forward throws CONFIG if the root was sharded after a unit had run.
 */
export function fullyShard<M extends Module | readonly Module[]>(
  target: M,
  context: ShardContext,
  options: FullyShardOptions = {},
): M {
  const modules = target instanceof Module ? [target] : requireGroup(target);
  const { mesh, rows = new RowsOfRanks() } = context;
  const isMesh = mesh !== undefined && mesh.axisNames.length > 1;
  const { strategy = isMesh ? 'HYBRID_SHARD' : 'FULL_SHARD' } = options;
  for (const module of modules) requireNoCopies(module);
  const ranks = ranksOf(modules, context, strategy);
  const placement = placementOf(strategy, options.reshardAfterForward, { ...ranks, rows });
  for (const ignored of options.ignoredModules ?? []) ignoreModule(ignored, context, options);
  makeUnit(modules, placement, ranks, options);
  return target;
}

/** Throws: CONFIG for an empty list, and for a module that is in it twice, is in another one, or is in a unit of its own. */
function requireGroup(modules: readonly Module[]): readonly Module[] {
  const named = (module: Module): string => `"${module.path}"`;
  if (modules.length === 0)
    throw new ConfigError(
      'fullyShard: the list has no modules; name those of the unit: fullyShard([norm, head])',
    );
  for (const [i, module] of modules.entries()) {
    if (modules.indexOf(module) < i)
      throw new ConfigError(`fullyShard: the list has ${named(module)} twice; name it once`);
    const outer = modules.find((container) => container !== module && container.modules().includes(module));
    if (outer !== undefined)
      throw new ConfigError(
        `fullyShard: ${named(module)} is inside ${named(outer)}, so the unit has its parameters already; leave it out of the list`,
      );
    if (unitsOf(module).some(({ owners }) => owners.includes(module)))
      throw new ConfigError(`fullyShard was already called on ${named(module)}; leave it out of the list`);
  }
  return modules;
}

/**
 * Excludes the module's parameters (except the parameters of units inside it) from sharding. Excluded parameters stay whole,
 * and their gradients are not reduced. A second call has no effect. Source: ignored_modules of FullyShardedDataParallel.
 */
export function ignoreModule(module: Module, context: ShardContext, options: FullyShardOptions = {}): void {
  if (freeParameters([module]).length > 0) makeUnit([module], IGNORED, context, options);
}

function makeUnit(
  modules: readonly Module[],
  placement: UnitPlacement,
  context: ShardContext,
  options: FullyShardOptions,
): void {
  const { engine, observer } = context;
  const parameters = freeParameters(modules);
  if (placement !== IGNORED) requireSameParts(parameters, context.group, 'fullyShard');
  if (placement.shardGroup !== null) for (const parameter of parameters) requireShardable(parameter);
  if (parameters.length > 0)
    requireSelfContained(modules, placement === IGNORED ? 'ignoredModules' : 'fullyShard');
  const syncs = options.syncModuleStates === true && placement !== IGNORED && context.group.size > 1;
  const precision = placement === IGNORED ? FULL_PRECISION : (options.precision ?? FULL_PRECISION);
  const tables = options.sparseGradients === true ? modules.flatMap((module) => rowTables(module)) : [];
  const name = modules.map(({ path }) => path).join(', ');
  const spec: UnitSpec = {
    engine,
    observer,
    module: name,
    contents: contentsOfUnit(name, parameters, context.group),
    placement,
    onHost: options.offloadParameters === true && placement.shardsParameters,
    half: halfOf(precision.paramDtype),
    gradHalf: halfOf(precision.reduceDtype),
    keepsGradHalf: precision.keepLowPrecisionGrads,
    missingAreZeros: options.missingAreZeros ?? false,
    tables: tables.filter(({ parameter }) => parameters.includes(parameter)),
    syncGroup: syncs ? context.group : null,
  };
  if (syncs) broadcastBuffers(freeBuffers(modules), context.group);
  const unit = parameters.length === 0 ? null : new FsdpUnit(modules, parameters, spec);
  const { members = [], numTrained = 0 } = unit ?? {};
  const declared = spec.half ?? undefined;
  const replicas = unit === null ? undefined : replicasOfUnit(unit);
  for (const module of modules) {
    const hooks = new ShardedModule(engine, module, unit, prefetchOf(options));
    castBoundaries(engine, module, precision);
    roundBuffers(module, precision);
    runAsUnit({ engine, observer, module, name, parameters: members, numTrained, hooks, declared, replicas });
    module.wrap((inputs, next) => {
      hooks.prepare();
      return next(...inputs);
    });
  }
}

function replicasOfUnit(unit: FsdpUnit): Replicas {
  const { members, numTrained, placement } = unit;
  const ranks = placement.replicateGroup?.ranks ?? null;
  return {
    parameters: members.slice(0, numTrained),
    ranks: () => (unit.requiresGradientSync ? ranks : null),
  };
}

function contentsOfUnit(name: string, parameters: readonly Parameter[], group: ProcessGroup): Contents {
  const { word } = contentsOf(name, parameters);
  return contentsOf(name, parameters, group.ordinal(`unit ${word}`));
}

/** Returns the parameters that are in no unit yet. */
function freeParameters(modules: readonly Module[]): Parameter[] {
  const all = [...new Set(modules.flatMap((module) => module.parameters()))];
  return heldParameters(all).filter(({ state }) => !(state instanceof UnitState));
}

/**
 * Throws: CONFIG for a unit within a layer of experts that have copies on other ranks, because all experts of the layer are
 * gathered before the copies' values are sent.
 */
function requireNoCopies(module: Module): void {
  const layers = module.root.modules().filter((each) => each instanceof Experts && each.copies !== null);
  const layer = layers.find((each) => each !== module && each.modules().includes(module));
  if (layer === undefined) return;
  throw new ConfigError(
    `fullyShard: "${module.path}" would be a unit within "${layer.path}", whose experts have copies on other ranks; make one unit of all experts ` +
      "of the layer (parallel.wrap 'blocks'), or leave out redundantExperts",
  );
}

/**
 * Returns the ranks over which a unit is sharded: the given ranks, or the ranks that have the same experts. Throws: CONFIG if a
 * unit has experts and other parameters, and for a hybrid strategy of experts.
 */
function ranksOf(modules: readonly Module[], context: ShardContext, strategy: StrategyName): ShardContext {
  const parameters = freeParameters(modules);
  const name = modules.map(({ path }) => path).join(', ');
  const [group = context.group, ...others] = new Set(
    parameters.map((parameter) => replicasOf(parameter, context.group)),
  );
  if (group === context.group && others.length === 0) return context;
  if (others.length > 0) {
    const expert = parameters.find(({ split }) => split?.over.replicas !== undefined);
    throw new ConfigError(
      `fullyShard: the unit "${name}" has experts (${expert?.name}) and other parameters, and the two are sharded over different ` +
        'ranks; make units of the experts first: fullyShard(block.moe.experts, …)',
    );
  }
  if (STRATEGIES[strategy].isHybrid) {
    throw new ConfigError(
      `fullyShard: experts ("${name}") that are divided over ranks cannot have ${strategy}; use FULL_SHARD, SHARD_GRAD_OP, ` +
        'ZERO_1 or ZERO_2, or train without expert parallelism',
    );
  }
  return { ...context, group, mesh: undefined };
}

/** Returns the buffers that are in no unit yet. */
function freeBuffers(modules: readonly Module[]): Buffer[] {
  const inside = modules.flatMap((module) => unitsOf(module));
  const taken = new Set(inside.flatMap(({ owners }) => owners.flatMap((owner) => owner.buffers())));
  return modules.flatMap((module) => module.buffers()).filter((buffer) => !taken.has(buffer));
}

function requireShardable({ name, shape }: Parameter): void {
  if (shape.length > 0) return;
  throw new ConfigError(`${name} is a scalar, but fullyShard shards along dim 0: give it shape [1]`);
}

function prefetchOf(options: FullyShardOptions): PrefetchOptions {
  const { forwardPrefetch: forward = true, backwardPrefetch: backward = 'BACKWARD_PRE' } = options;
  return { forward, backward, limit: options.limitAllGathers ?? true };
}

/**
 * A module on which `fullyShard` was called, alone or in a list (then all modules of the list have the same unit). This object calls the schedule for the module's unit; a module without parameters
 * of its own has no unit. The module whose forward is called first becomes the root of all units inside it. See
 * [Note: a step of FSDP].
 * Source: FSDPState and its _lazy_init.
 */
class ShardedModule implements UnitHooks {
  readonly #engine: Engine;
  readonly #module: Module;
  readonly #unit: FsdpUnit | null;
  readonly #prefetch: PrefetchOptions;
  #schedule: FsdpSchedule | null = null;

  constructor(engine: Engine, module: Module, unit: FsdpUnit | null, prefetch: PrefetchOptions) {
    this.#engine = engine;
    this.#module = module;
    this.#unit = unit;
    this.#prefetch = prefetch;
  }

  /**
   * Finds the schedule of the root, or makes it; runs before every forward. Throws: CONFIG if one of the root's units ran before
   * the root was sharded.
   */
  prepare(): void {
    this.#schedule ??= this.#joined() ?? this.#asRoot();
  }

  preForward(phase: ForwardPhase): void {
    const schedule = this.#scheduled();
    if (phase === 'recompute') {
      if (this.#unit !== null) schedule.preRecompute(this.#unit);
      return;
    }
    if (schedule.root === this.#module) schedule.rootPreForward();
    if (this.#unit !== null) schedule.preForward(this.#unit);
  }

  postForward(phase: ForwardPhase): void {
    const schedule = this.#scheduled();
    if (phase === 'recompute') return;
    if (this.#unit !== null) schedule.postForward(this.#unit, this.#module);
    if (schedule.root === this.#module) schedule.rootPostForward();
  }

  preBackward(): void {
    this.#scheduled().preBackward(this.#unit);
  }

  postBackward(grads: readonly (tf.Tensor | null)[]): void {
    const schedule = this.#scheduled();
    if (this.#unit !== null) schedule.postBackward(this.#unit, grads);
    if (schedule.root === this.#module) schedule.finalizeBackward();
  }

  /** Returns the schedule of a root around this module, if that root already has a schedule. */
  #joined(): FsdpSchedule | null {
    const scheduled = unitsOf(this.#module).find((unit) => unit.schedule !== null);
    const schedule = scheduled?.schedule ?? null;
    if (scheduled === undefined || !(schedule instanceof FsdpSchedule)) return null;
    if (schedule.root !== this.#module && schedule.root.modules().includes(this.#module)) return schedule;
    throw new ConfigError(
      `unit "${scheduled.module}" ran on its own before its root "${this.#module.path}" did; ` +
        `shard the root before the first forward, and call the root`,
    );
  }

  #asRoot(): FsdpSchedule {
    if (this.#unit !== null && this.#unit.owners.length > 1)
      throw new ConfigError(
        `"${this.#module.path}" is in one unit with other modules ("${this.#unit.module}") and cannot be a root; call fullyShard on the ` +
          'module around them, and call that module first',
      );
    const schedule = new FsdpSchedule(this.#engine, this.#module, this.#prefetch);
    for (const unit of schedule.units) unit.join(schedule, unit === this.#unit);
    return schedule;
  }

  #scheduled(): FsdpSchedule {
    if (this.#schedule !== null) return this.#schedule;
    throw new ShardlabError('INTERNAL', `module "${this.#module.path}" runs before its root was set up`);
  }
}
