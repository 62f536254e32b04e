import {
  type ActivationCheckpointingConfig,
  anything,
  atLeast0,
  type Call,
  callback,
  checkArguments,
  count,
  fields,
  flag,
  type OptionKinds,
  orNull,
  parseTrainConfig,
  requireKind,
  requireOptions,
  STRATEGIES,
  STRATEGY_NAMES,
  tensor,
} from '../../config';
import { ConfigError, classOf, type Observer, type Warn } from '../../core';
import type * as tf from '../../core/tf';
import type { Engine } from '../../engine';
import {
  asModule,
  type GPT,
  isLayer,
  LanguageModel,
  type Layer,
  type Module,
  type MoeGPT,
  requireModule,
  withParameters,
} from '../../nn';
import {
  applyActivationCheckpointing,
  type CheckpointWrapperOptions,
  CPUOffloadPolicy,
  type CPUOffloadPolicyOptions,
  checkpointWrapper,
  type DdpOptions,
  DDP as DistributedDataParallel,
  type FairScaleOptions,
  type Fsdp,
  type FsdpContext,
  type FsdpOptions,
  type FullyShardArguments,
  fromFairScale,
  fsdp,
  fsdpModules,
  fullyShard,
  fullyShardOptions,
  type NaivePipeline,
  type NaiveStep,
  type NaiveTraining,
  naiveContextParallel,
  naiveDDP,
  naiveExpertParallel,
  naiveFullyShard,
  naivePipeline,
  naiveTensorParallel,
  naiveTrain,
  noSync,
  type RankContext,
  type ReductionErrorOptions,
  RowsOfRanks,
  reductionError,
  requireSameParts,
  type SummonOptions,
  shardInPlace,
  sparseAllToAll,
  summonFullParams,
  unitsOf,
} from '../../sharding';
import * as names from '../../sharding/names/fsdp-names';
import type { StateDictType } from '../../training';
import {
  type DeviceMesh,
  initDeviceMesh,
  type Nodes,
  type ProcessGroup,
  requireGroup,
  type World,
} from '../../wire';
import type { BatchNormWarning } from './batch-norm-warning';
import { callableClass } from './callable-class';
import { type StateDictMethods, stateDictMethods } from './checkpoints';

/** DDP's options, and the mesh of one axis over which DDP replicates the model; default: all ranks. */
type ReplicateOptions = DdpOptions & { readonly mesh?: DeviceMesh | undefined };

/** The ranks that take part; default: all. */
export interface GroupOption {
  readonly group?: ProcessGroup;
}

/** The wrapper that FSDP returns for a module. */
export type RankFsdpWrapper<M extends Module> = Fsdp<M>;

/** FSDP, which is called with or without `new`, and torch's static methods. */
export interface FsdpFunction extends StateDictMethods {
  /** Shards a layer or model of tfjs in place and returns the same object, which is called as before. */
  <L extends Layer>(layer: L, options?: FsdpOptions): L;
  <M extends Module>(module: M, options?: FsdpOptions): RankFsdpWrapper<M>;
  new <L extends Layer>(layer: L, options?: FsdpOptions): L;
  new <M extends Module>(module: M, options?: FsdpOptions): RankFsdpWrapper<M>;
  /** Returns the modules that have a unit. */
  fsdpModules(model: Module | Layer, options?: { readonly rootOnly?: boolean }): Module[];
  /** Runs `work` without reductions: the gradients of all backwards in `work` stay whole and local, and are added up. */
  noSync<T>(model: Module | Layer, work: () => T): T;
  /**
   * Runs `work` while all parameters are whole on every rank. Changes that `work` makes to parameters persist only with
   * `writeback: true`. Every rank calls it. Throws: COLLECTIVE_MISSING, SHAPE.
   */
  summonFullParams<T>(model: Module | Layer, work: () => T, options?: SummonOptions): T;
}

/** DDP, which is called with or without `new`. */
export interface DdpFunction {
  <M extends Module>(module: M, options?: ReplicateOptions): DistributedDataParallel<M>;
  (layer: Layer, options?: ReplicateOptions): DistributedDataParallel;
  new <M extends Module>(module: M, options?: ReplicateOptions): DistributedDataParallel<M>;
  new (layer: Layer, options?: ReplicateOptions): DistributedDataParallel;
}

const DDP_CALL: Call<'ddp', ReplicateOptions> = {
  what: 'DDP(model, { … })',
  by: 'ddp',
  values: DistributedDataParallel.values,
  own: {
    mesh: true,
    firstBucketBytes: true,
    policy: true,
    broadcastBuffers: true,
    deviceIds: { noEffect: 'every rank has one engine' },
    outputDevice: { noEffect: 'every rank has one engine' },
    findUnusedParameters: {
      noEffect: 'DDP always finds parameters that no rank uses, and leaves them unchanged',
    },
    gradientAsBucketView: { noEffect: 'gradients are always views of their buckets' },
    bucketCapMb: {
      refused: 'it takes the bucket size in bytes: bucketBytes: 25 * 2 ** 20 is bucket_cap_mb=25',
    },
  },
};

interface FsdpParts {
  readonly world: Pick<World, 'nodes'>;
  readonly engine: Engine;
  readonly observer: Observer;
  readonly warn: Warn;
  readonly batchNorms: BatchNormWarning;
}

/** The functions of data parallelism that are bound to a rank. */
export interface RankFsdp extends Readonly<ReturnType<typeof rankFsdp>> {}

/** Data parallelism on this rank's engine and groups; `mesh` has all ranks. */
export function rankFsdp({ world, engine, observer, warn, batchNorms }: FsdpParts, mesh: DeviceMesh) {
  const rows = new RowsOfRanks();
  const contextOf = (chosen: DeviceMesh = mesh) => ({
    engine,
    observer,
    group: chosen.group,
    mesh: chosen,
    rows,
    warn,
  });
  const unmeshed = { ...contextOf(), mesh: undefined };
  const FSDP = fsdpFunction(unmeshed, batchNorms, (options) =>
    placeInNodes(options, mesh.group, world.nodes),
  );
  return {
    ...names,
    /** Shards a module or a tfjs layer, or a list of them as one unit, and returns what it got. */
    fullyShard<M extends Module | Layer | readonly (Module | Layer)[]>(
      target: M,
      options: FullyShardArguments = {},
    ): M {
      requireKind('fullyShard', 'the second argument', options, fields);
      const shared = fullyShardOptions(options);
      const context = contextOf(options.mesh);
      if (Array.isArray(target)) {
        const modules = target.map((each: Module | Layer) => shardable(each));
        for (const module of modules) batchNorms.check(module, context.group.size);
        fullyShard(modules, context, shared);
        return target;
      }
      const module = shardable(target as Module | Layer); // a list is an array
      batchNorms.check(module, context.group.size);
      fullyShard(module, context, shared);
      return target;
    },
    DDP: callableClass((module: Module | Layer, ddpOptions: ReplicateOptions = {}) => {
      requireKind('DDP', 'the second argument', ddpOptions, fields);
      checkArguments(DDP_CALL, ddpOptions, warn);
      const { mesh: chosen, ...options } = ddpOptions;
      const context = contextOf(chosen);
      const taken = replicable(module);
      batchNorms.check(taken, context.group.size);
      return new DistributedDataParallel(taken, context, options);
    }) as unknown as DdpFunction, // the class has the module's type
    FSDP,
    FullyShardedDataParallel: FSDP,
    naive: naiveForms(contextOf(), mesh.group),
    /** Converts arguments with FairScale's names to FSDP's arguments; warns about names without effect. */
    fromFairScale: (options: FairScaleOptions): FsdpOptions => fromFairScale(options, warn),
    CPUOffloadPolicy: (options?: CPUOffloadPolicyOptions) => CPUOffloadPolicy(warn, options),
    checkpointWrapper: <M extends Module>(layer: M, options?: CheckpointWrapperOptions): M =>
      checkpointWrapper({ engine, observer, warn }, layer, options),
    ...rowFunctions(engine, mesh.group),
    ...recomputeFunctions(engine, observer),
  };
}

/**
 * The simplest form of each parallelism and of the training loop (src/sharding/naive), for reading and comparing. `group`: the
 * ranks that take part; default: all.
 */
export interface NaiveForms {
  /** Replicates a module; returns the module. Its source: src/sharding/naive/ddp.ts. */
  DDP<M extends Module>(module: M): M;
  /** Shards a module as one unit; returns the module. Its source: src/sharding/naive/fsdp.ts. */
  fullyShard<M extends Module>(module: M): M;
  /** Divides the matrices of an `nn.gpt`; returns the model. All ranks give it the same batch. Its source: src/sharding/naive/tensor-parallel.ts. */
  tensorParallel(model: GPT, group?: ProcessGroup): GPT;
  /**
   * Divides the sequences of an `nn.gpt`; returns the model. All ranks give it the same batch; then call `naive.DDP`. Its source:
   * src/sharding/naive/context-parallel.ts.
   */
  contextParallel(model: GPT, group?: ProcessGroup): GPT;
  /** Divides the experts of an `nn.moe`; returns the model. Then call `DDP`. Its source: src/sharding/naive/expert-parallel.ts. */
  expertParallel(model: MoeGPT, group?: ProcessGroup): MoeGPT;
  /** Divides the layers of a language model; returns the rank's stage, whose `step` runs GPipe. Its source: src/sharding/naive/pipeline-parallel.ts. */
  pipeline(model: LanguageModel, group?: ProcessGroup): NaivePipeline;
  /** Trains a model, step by step: `for (const { loss } of naive.train({ model, optimizer, batch })) …`. Its source: src/sharding/naive/train.ts. */
  train(training: NaiveTraining): Generator<NaiveStep>;
}

/** Returns the simplest forms, bound to a rank; `all` has all ranks. */
function naiveForms(context: RankContext, all: ProcessGroup): NaiveForms {
  const within = (caller: string, group: ProcessGroup = all): ProcessGroup => requireGroup(caller, group);
  return {
    DDP: (module) => naiveDDP(unheld(module, 'naive.DDP', all), context),
    fullyShard: (module) => naiveFullyShard(unheld(module, 'naive.fullyShard', all), context),
    tensorParallel(model, group) {
      const ranks = within('naive.tensorParallel', group);
      requireLanguageModel(model, 'naive.tensorParallel', 'gpt');
      return naiveTensorParallel(unheld(model, 'naive.tensorParallel', ranks), ranks);
    },
    contextParallel(model, group) {
      requireLanguageModel(model, 'naive.contextParallel', 'gpt');
      return naiveContextParallel(model, within('naive.contextParallel', group));
    },
    expertParallel(model, group) {
      const ranks = within('naive.expertParallel', group);
      requireLanguageModel(model, 'naive.expertParallel', 'moe');
      return naiveExpertParallel(unheld(model, 'naive.expertParallel', ranks), ranks);
    },
    pipeline(model, group) {
      requireLanguageModel(model, 'naive.pipeline');
      return naivePipeline(model, { ...context, group: within('naive.pipeline', group) });
    },
    train(training) {
      requireOptions('naive.train', training, NAIVE_TRAINING);
      return naiveTrain(training, context);
    },
  };
}

const NAIVE_TRAINING: OptionKinds<NaiveTraining> = {
  model: anything,
  optimizer: anything,
  batch: callback,
  accumulation: count,
  clipNorm: orNull(atLeast0),
};

/** A layer of a block by which the naive forms know a kind of models. */
const LAYER = { gpt: 'fc1', moe: 'moe' } as const;

/** Throws: CONFIG unless a value is a language model, of this kind if one is given. */
function requireLanguageModel(model: unknown, caller: string, kind?: keyof typeof LAYER): void {
  const isKind = ({ blocks }: LanguageModel): boolean =>
    kind === undefined || [...blocks].every((block) => LAYER[kind] in block);
  if (model instanceof LanguageModel && isKind(model)) return;
  const wanted = kind === undefined ? 'a language model, such as nn.gpt({ … })' : `an nn.${kind}({ … })`;
  throw new ConfigError(`${caller} takes ${wanted}, but got ${classOf(model)}`);
}

/** Functions for rows and rounding, on the group of all ranks. */
function rowFunctions(engine: Engine, all: ProcessGroup) {
  return {
    /** Sends each row only to its rank in `destinations`; `back` of the result sends the rows back. Every rank calls it. */
    sparseAllToAll: (
      rows: tf.Tensor,
      destinations: ArrayLike<number> | tf.Tensor,
      options: GroupOption = {},
    ) => {
      const caller = 'sparseAllToAll';
      requireKind(caller, 'the first argument', rows, tensor);
      const { group = all } = requireOptions(caller, options, { group: anything });
      return sparseAllToAll(engine, requireGroup(caller, group), rows, destinations);
    },
    /** Averages random gradients with 16 bits per element on the wire; reports the error of the means. Every rank calls it. */
    reductionError: (allOptions: ReductionErrorOptions & GroupOption = {}) => {
      requireKind('reductionError', 'the argument', allOptions, fields);
      const { group = all, ...options } = allOptions;
      return reductionError(engine, requireGroup('reductionError', group), options);
    },
  };
}

function recomputeFunctions(engine: Engine, observer: Observer) {
  return {
    /** Applies activation checkpointing to layers (default: all); `config` is a value of a config's `activationCheckpointing`. */
    applyActivationCheckpointing: (
      model: Module,
      config: ActivationCheckpointingConfig | null = 'full',
      options: { readonly offloadToHost?: boolean } = {},
    ) => {
      const caller = 'applyActivationCheckpointing';
      const { offloadToHost = false } = requireOptions(caller, options, { offloadToHost: flag });
      // Throws: CONFIG unless the value has one of the forms of a config's activationCheckpointing.
      const { activationCheckpointing } = parseTrainConfig({ activationCheckpointing: config });
      return applyActivationCheckpointing(
        { engine, observer },
        requireModule(caller, model),
        activationCheckpointing,
        offloadToHost,
      );
    },
  };
}

function fsdpFunction(
  context: FsdpContext,
  batchNorms: BatchNormWarning,
  placed: (options: FsdpOptions | undefined) => FsdpOptions | undefined,
): FsdpFunction {
  const { engine, group } = context;
  const dicts = stateDictMethods(engine, group);
  function FSDP(moduleOrLayer: Module | Layer, fsdpOptions?: FsdpOptions): Module | Layer {
    if (fsdpOptions !== undefined) requireKind('FSDP', 'the second argument', fsdpOptions, fields);
    const module = withParameters(unwrapped(moduleOrLayer, 'FSDP'), 'FSDP');
    batchNorms.check(module, group.size);
    const options = placed(fsdpOptions);
    if (isLayer(moduleOrLayer)) {
      shardInPlace(module, context, options);
      return moduleOrLayer;
    }
    const wrapper = fsdp(module, context, options);
    const stateDict = wrapper.stateDict.bind(wrapper);
    return Object.assign(wrapper, {
      stateDict() {
        requireFull(dicts.getStateDictType(wrapper));
        return stateDict();
      },
    });
  }
  const methods: Omit<FsdpFunction, keyof StateDictMethods> = {
    fsdpModules: (model, options) => fsdpModules(asModule(model, 'FSDP.fsdpModules'), options),
    noSync: (model, work) => noSync(asModule(model, 'FSDP.noSync'), work),
    summonFullParams: (model, work, options) =>
      summonFullParams(engine, asModule(model, 'FSDP.summonFullParams'), work, options),
  };
  // If a function returns an object, `new` returns this object.
  return Object.assign(FSDP, { ...methods, ...dicts }) as unknown as FsdpFunction;
}

/** Gives a hybrid strategy without a mesh the job's nodes as replicas, as torch's FSDP does. */
function placeInNodes(
  options: FsdpOptions | undefined,
  group: ProcessGroup,
  nodes: Nodes | undefined,
): FsdpOptions | undefined {
  const strategy = STRATEGY_NAMES.find((name) => name === options?.shardingStrategy);
  const numNodes = group.size / (nodes?.ranksPerNode ?? group.size);
  const isHybrid = strategy !== undefined && STRATEGIES[strategy].isHybrid;
  if (!isHybrid || options?.deviceMesh !== undefined || numNodes === 1 || !Number.isInteger(numNodes))
    return options;
  const deviceMesh = initDeviceMesh(group, [numNodes, group.size / numNodes], ['replicate', 'shard']);
  return { ...options, deviceMesh };
}

/** Returns the module that fullyShard shards. Throws: CONFIG unless it is a module with parameters on which fullyShard was not called. */
function shardable(moduleOrLayer: Module | Layer): Module {
  const module = withParameters(unwrapped(moduleOrLayer, 'fullyShard'), 'fullyShard');
  if (!unitsOf(module).some(({ owners }) => owners.includes(module))) return module;
  const name = module.path === '' ? `this ${module.constructor.name}` : `"${module.path}"`;
  throw new ConfigError(
    `fullyShard was already called on ${name}, and a second call has no effect; build the model again to shard it differently`,
  );
}

/** Returns the value. Throws: CONFIG for DDP's wrapper. */
function unwrapped<T>(value: T, caller: string): T {
  if (!(value instanceof DistributedDataParallel)) return value;
  throw new ConfigError(
    `${caller} takes a module without DDP, but got one in DDP; build the model again, and do not wrap it in DDP`,
  );
}

/** Throws: CONFIG for sharded dicts, whose values are not whole tensors. */
function requireFull(type: StateDictType): void {
  if (type === 'FULL_STATE_DICT') return;
  throw new ConfigError(
    `model.stateDict() returns whole tensors; for a ${type}, write FSDP.stateDict(model)`,
  );
}

/**
 * Returns the module. Throws: CONFIG for a value that is not a module with parameters, and for a module with parameters that a
 * strategy already holds or splits.
 */
function unheld<M extends Module>(module: M, caller: string, group: ProcessGroup): M {
  withParameters(module, caller);
  requireSameParts(module.parameters(), group, caller);
  if (!module.parameters().some(({ isAdopted, unit }) => isAdopted || unit !== null)) return module;
  throw new ConfigError(
    `${caller}(model): DDP, FSDP or fullyShard already holds parameters of the model; build the model again`,
  );
}

/**
 * Returns the module that DDP wraps. Throws: CONFIG for a value that is not a module, a module without parameters, and a
 * sharded model.
 */
function replicable(module: Module | Layer): Module {
  const taken = withParameters(module, 'DDP');
  if (unitsOf(taken).length === 0) return taken;
  throw new ConfigError(
    'DDP(model): fullyShard or FSDP has already sharded the model, and DDP needs the whole model on every rank; ' +
      "build it again for DDP, or replicate shards: fullyShard(model, { mesh: initDeviceMesh([replicas, shards], ['replicate', 'shard']) })",
  );
}
