import { z } from 'zod';
import {
  anyValue,
  type Call,
  checkArguments,
  flagSchema,
  nearest,
  type ShapeOf,
  STRATEGIES,
  STRATEGY_NAMES,
  type StrategyName,
} from '../../config';
import { ConfigError, isRecord, ownValue, shown, type Warn } from '../../core';
import type { Module } from '../../nn';
import { type DeviceMesh, type ProcessGroup, requireGroup } from '../../wire';
import type { FullyShardOptions } from '../fsdp/fully-shard';
import { MESH_VALUE, MODULES, POLICY, PREFETCH, RESHARD } from '../option-values';
import type { MixedPrecision as Policy } from '../precision/mixed-precision';
import { rootOnly, type WrapPolicy } from '../wrap-policy';
import { BackwardPrefetch, type CPUOffload } from './arguments';
import { FAIR_SCALE_NAMES } from './fair-scale';

/**
 * A policy function that is passed without its options, as in many tutorials. Every call of such a function throws an error that
 * shows the right form.
 */
export type BarePolicy = (options: never) => WrapPolicy;

/** Arguments of FSDP. Source: torch.distributed.fsdp.FullyShardedDataParallel, in camelCase. */
export interface FsdpOptions {
  /** Chooses the modules that become units. Default: the model is one unit. */
  readonly autoWrapPolicy?: WrapPolicy | BarePolicy | null | undefined;
  /** What is sharded. Default FULL_SHARD. */
  readonly shardingStrategy?: StrategyName | undefined;
  /** The dtypes of parameters, gradients and buffers: `MixedPrecision({ … })`. Default: float32. */
  readonly mixedPrecision?: Policy | boolean | null | undefined;
  /** When backward gathers the next unit; null: no prefetch. Default BACKWARD_PRE. */
  readonly backwardPrefetch?: 'BACKWARD_PRE' | 'BACKWARD_POST' | null | undefined;
  readonly forwardPrefetch?: boolean | undefined;
  readonly limitAllGathers?: boolean | undefined;
  readonly syncModuleStates?: boolean | undefined;
  readonly ignoredModules?: Iterable<Module> | null | undefined;
  /** Whether shards are stored on the host: `CPUOffload({ offloadParams: true })`. Default: they are on the device. */
  readonly cpuOffload?: CPUOffload | boolean | null | undefined;
  /** The ranks to shard over; for hybrid strategies a mesh of replicas and shards. */
  readonly deviceMesh?: DeviceMesh | undefined;
  readonly processGroup?: ProcessGroup | undefined;
  /** Has no effect; a warning says so. */
  readonly deviceId?: unknown;
  /** Has no effect; a warning says so. */
  readonly useOrigParams?: boolean | undefined;
  /** Has no effect; a warning says so. */
  readonly paramInitFn?: unknown;
  /** Not an argument of FSDP; the error shows the right form. */
  readonly checkpointWrapper?: unknown;
  /** Not an argument of FSDP; the error shows the right form. */
  readonly ignoreUnusedParameters?: unknown;
}

const FSDP_VALUES = {
  forwardPrefetch: flagSchema,
  limitAllGathers: flagSchema,
  syncModuleStates: flagSchema,
  ignoredModules: MODULES.nullable(),
  deviceMesh: MESH_VALUE,
  useOrigParams: flagSchema,
  // Functions below check these, and say what to write.
  autoWrapPolicy: z.any(),
  shardingStrategy: anyValue<StrategyName>(),
  mixedPrecision: z.any(),
  backwardPrefetch: z.any(),
  cpuOffload: z.any(),
  processGroup: z.any(),
  // These have no effect, or are refused.
  deviceId: z.any(),
  paramInitFn: z.any(),
  checkpointWrapper: z.any(),
  ignoreUnusedParameters: z.any(),
} satisfies ShapeOf<FsdpOptions>;

/** The arguments that FSDP accepts: settings, and (in `own`) arguments that are not settings. */
const FSDP: Call<'fsdp', FsdpOptions> = {
  what: 'FSDP(model, { … })',
  by: 'fsdp',
  values: FSDP_VALUES,
  own: {
    processGroup: true,
    deviceId: { noEffect: 'every rank has one engine, and the model is on it from the start' },
    useOrigParams: { noEffect: 'parameters always keep their own names and shapes' },
    paramInitFn: {
      noEffect:
        'initial values depend only on the seed, and when a module is sharded, each rank makes only the values of its own chunks',
    },
    checkpointWrapper: {
      refused:
        'checkpoint the layers before FSDP: for (const block of model.blocks) checkpointWrapper(block); FSDP(model, …)',
    },
    ignoreUnusedParameters: {
      refused:
        "FSDP needs no such argument: an unused parameter's gradient counts as zeros (only DistributedDataParallel has find_unused_parameters)",
    },
  },
};

/** FSDP's arguments, converted for `fullyShard`. */
export interface FsdpSettings {
  readonly policy: WrapPolicy;
  readonly ignoredModules: readonly Module[];
  readonly group: ProcessGroup | undefined;
  readonly mesh: DeviceMesh | undefined;
  readonly options: FullyShardOptions;
}

/**
 * Checks FSDP's arguments and converts them. Throws: CONFIG; for an unknown argument, the error names a similar one, its
 * camelCase form, or what to write in place of another library's argument.
 */
export function fsdpSettings(options: FsdpOptions, warn: Warn): FsdpSettings {
  refuseFairScale(options);
  checkArguments(FSDP, options, warn);
  const ignoredModules = [...(options.ignoredModules ?? [])];
  const strategy = strategyOf(options, warn);
  const mesh = options.deviceMesh;
  const { forwardPrefetch, limitAllGathers, syncModuleStates, processGroup } = options;
  return {
    policy: policyOf(options.autoWrapPolicy ?? null),
    ignoredModules,
    group: processGroup === undefined ? mesh?.group : requireGroup('FSDP', processGroup),
    mesh,
    options: {
      strategy,
      forwardPrefetch,
      backwardPrefetch: backwardPrefetchOf(options.backwardPrefetch),
      limitAllGathers,
      syncModuleStates,
      ignoredModules,
      precision: precisionOf(options.mixedPrecision),
      offloadParameters: offloadOf(options.cpuOffload),
      missingAreZeros: true,
    },
  };
}

/** Throws: CONFIG for FairScale's arguments; the error says what to write here. */
function refuseFairScale(options: FsdpOptions): void {
  if (!isRecord(options)) return; // `checkArguments` refuses it
  for (const name of Object.keys(options)) {
    const ours = ownValue(FAIR_SCALE_NAMES, name);
    if (ours === undefined) continue;
    throw new ConfigError(
      `FSDP(model, { … }) has no argument ${name}, which is FairScale's; here ${ours}. ` +
        "FSDP(model, fromFairScale({ … })) accepts FairScale's names",
    );
  }
}

function strategyOf({ shardingStrategy = 'FULL_SHARD', deviceMesh }: FsdpOptions, warn: Warn): StrategyName {
  const known = STRATEGY_NAMES;
  const strategy = known.find((name) => name === shardingStrategy);
  if (strategy === undefined) {
    const near = nearest(String(shardingStrategy), known);
    const hint = near === undefined ? `choose one of ${known.join(', ')}` : `did you mean '${near}'?`;
    throw new ConfigError(`FSDP: shardingStrategy is ${shown(shardingStrategy)}; ${hint}`);
  }
  if (STRATEGIES[strategy].isHybrid && (deviceMesh?.axisNames.length ?? 1) < 2) {
    warn(
      `FSDP: ${strategy} without a deviceMesh of two axes has one replica, because all ranks are on one host; ` +
        "give deviceMesh: initDeviceMesh([replicas, shards], ['replicate', 'shard'])",
    );
  }
  return strategy;
}

function policyOf(policy: WrapPolicy | BarePolicy | null): WrapPolicy {
  if (policy === null) return rootOnly;
  if (typeof policy !== 'function') {
    throw new ConfigError(
      `FSDP: autoWrapPolicy is ${shown(policy)}; give a policy, such as transformerAutoWrapPolicy({ transformerLayerCls: [nn.Block] })`,
    );
  }
  // A policy function without its options throws its own error when it is called.
  return policy as WrapPolicy;
}

function backwardPrefetchOf(prefetch: FsdpOptions['backwardPrefetch']): FsdpOptions['backwardPrefetch'] {
  if (prefetch === undefined || prefetch === null || Object.hasOwn(BackwardPrefetch, prefetch))
    return prefetch;
  throw new ConfigError(
    `FSDP: backwardPrefetch is ${shown(prefetch)}; give 'BACKWARD_PRE', 'BACKWARD_POST' or null`,
  );
}

function precisionOf(precision: FsdpOptions['mixedPrecision']): Policy | undefined {
  if (precision === undefined || precision === null || precision === false) return undefined;
  if (typeof precision === 'object' && 'castForwardInputs' in precision) return precision;
  throw new ConfigError(
    `FSDP: mixedPrecision is ${shown(precision)} (torch: AttributeError); ` +
      "write mixedPrecision: MixedPrecision({ paramDtype: 'bfloat16', reduceDtype: 'bfloat16' })",
  );
}

function offloadOf(offload: FsdpOptions['cpuOffload']): boolean {
  if (offload === undefined || offload === null || offload === false) return false;
  if (typeof offload === 'object' && typeof offload.offloadParams === 'boolean') return offload.offloadParams;
  throw new ConfigError(
    `FSDP: cpuOffload is ${shown(offload)}; write cpuOffload: CPUOffload({ offloadParams: true })`,
  );
}

/** Arguments of fully_shard. Source: torch.distributed.fsdp.fully_shard, in camelCase, plus FSDP's settings. */
export interface FullyShardArguments extends Omit<FullyShardOptions, 'missingAreZeros'> {
  /** The ranks to shard over: a mesh of one axis, or of two axes (replicas, then shards). Default: all ranks. */
  readonly mesh?: DeviceMesh | undefined;
  /** The dtypes of parameters, gradients and outputs: `MixedPrecisionPolicy({ … })`. Default: float32. */
  readonly mpPolicy?: Policy | undefined;
  /** Whether shards are stored on the host: `CPUOffloadPolicy()`, or the default `OffloadPolicy()` (they are on the device). */
  readonly offloadPolicy?: CPUOffload | undefined;
}

/** All arguments of fully_shard are settings. */
const FULLY_SHARD: Call<'fullyShard', FullyShardArguments> = {
  what: 'fullyShard(module, { … })',
  by: 'fullyShard',
  own: {},
  values: {
    strategy: z.enum(STRATEGY_NAMES),
    reshardAfterForward: RESHARD,
    forwardPrefetch: flagSchema,
    backwardPrefetch: PREFETCH,
    limitAllGathers: flagSchema,
    ignoredModules: MODULES,
    syncModuleStates: flagSchema,
    precision: POLICY,
    sparseGradients: flagSchema,
    offloadParameters: flagSchema,
    mesh: MESH_VALUE,
    // `fullyShardOptions` checks these, and says what to write.
    mpPolicy: anyValue<Policy>(),
    offloadPolicy: anyValue<CPUOffload>(),
  },
};

/**
 * Converts fully_shard's arguments for `fullyShard`. Throws: CONFIG for an unknown argument (the error names a similar
 * one), and for a value that is not a policy.
 */
export function fullyShardOptions(callArguments: FullyShardArguments): FullyShardOptions {
  checkArguments(FULLY_SHARD, callArguments, () => {});
  const { mesh: _mesh, mpPolicy, offloadPolicy, ...options } = callArguments;
  if (mpPolicy !== undefined && (typeof mpPolicy !== 'object' || !('castForwardInputs' in mpPolicy))) {
    throw new ConfigError(
      `fullyShard: mpPolicy is ${shown(mpPolicy)}; write mpPolicy: MixedPrecisionPolicy({ paramDtype: 'bfloat16' })`,
    );
  }
  if (offloadPolicy !== undefined && typeof offloadPolicy?.offloadParams !== 'boolean') {
    throw new ConfigError(
      `fullyShard: offloadPolicy is ${shown(offloadPolicy)}; write offloadPolicy: CPUOffloadPolicy()`,
    );
  }
  return {
    ...options,
    precision: options.precision ?? mpPolicy,
    offloadParameters: options.offloadParameters ?? offloadPolicy?.offloadParams,
  };
}
