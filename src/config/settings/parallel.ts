import { z } from 'zod';
import { hasRouter, kindOf } from '../families/families';
import { size } from '../families/kinds';
import { type Facts, type Settings, schemaOf } from '../setting';
import { STRATEGIES, STRATEGY_NAMES, STRATEGY_WORDS, strategySchema } from '../strategies';
import { COMM_HOOK } from './comm-hook';
import { EXPERT_PARALLEL } from './expert-parallel';
import {
  keepsToBackward,
  strategiesOf,
  unlessGathered,
  whole,
  withoutCopies,
  withoutMesh,
} from './gathering';
import { isOwnModel, type ModelSetting, modelShape } from './model';
import { MODEL_PARALLEL, shardRanksOf } from './model-parallel';
import { PIPELINE } from './pipeline';
import { floatSchema, type MixedPrecisionConfig } from './precision';

/** Which modules become separate units. */
const wrapSchema = z.union([
  /** In this order: every block; only the root; every Linear; every block and every expert. */
  z.enum(['blocks', 'root', 'linear', 'moe']),
  /** Modules by size. Source: size_based_auto_wrap_policy. */
  z.strictObject({ minNumParams: z.int().min(1) }),
  /** Classes by name, such as 'Block'. Source: transformer_auto_wrap_policy, ModuleWrapPolicy. */
  z.strictObject({ layerCls: z.array(z.string()).min(1) }),
  /** Modules by name, '*' is one part of a name: 'blocks.*.fc1'. Source: lambda_auto_wrap_policy. */
  z.strictObject({ modules: z.array(z.string()).min(1) }),
]);

const meshSchema = z.strictObject({ dpReplicate: size, dpShard: size });
const unitStrategySchema = z.strictObject({ modules: z.string(), strategy: strategySchema });

/** The part of a config that the rules below read. */
export interface Read {
  readonly model: ModelSetting;
  readonly parallel: ParallelConfig;
  readonly accumulation: number;
  readonly mixedPrecision: MixedPrecisionConfig | null;
}

/** How data-parallel ranks share a model. */
const DATA_PARALLEL = {
  strategy: {
    schema: strategySchema.default('FULL_SHARD'),
    says: 'what is sharded over the ranks: nothing (NO_SHARD), optimizer states (ZERO_1), also gradients (ZERO_2), also parameters (the others); hybrid strategies shard within a group and replicate over groups',
    form: `${STRATEGY_NAMES.map((name) => `'${name}'`).join(', ')}, or a name of another framework, such as 'DDP', 'FSDP', 'ZeRO-2' or 'hybrid_shard'`,
    names: {
      fsdp: 'sharding_strategy',
      fullyShard: 'strategy',
      deepSpeed: ['stage', 'zero_stage', 'zero_optimization'],
      accelerate: [
        'distributed_type',
        'zero_stage',
        'fsdp_sharding_strategy',
        'fsdp_reshard_after_forward',
        'megatron_lm_use_distributed_optimizer',
      ],
      transformers: 'fsdp',
      wan: 'dit_fsdp',
    },
    hint: ", as 'FULL_SHARD' (ZeRO-3), 'ZERO_2' or 'ZERO_1'",
    words: STRATEGY_WORDS,
    warns: (facts: Facts<Read>): string | null => {
      const { strategy, tp, pp } = facts.config.parallel;
      const ranks = shardRanksOf(facts.config, facts.world);
      if (ranks > 1 || strategy === 'NO_SHARD') return withoutMesh(strategy, facts);
      const degrees = Object.entries({ tp, pp }).filter(([, degree]) => degree > 1);
      const named = degrees.map(([key, degree]) => `parallel.${key} ${degree}`).join(' and ');
      const alone =
        named === '' ? 'one rank' : `${named} on ${facts.world} ranks, which leaves one rank to shard over`;
      return `${strategy} shards nothing with ${alone}: all states are whole, as under NO_SHARD; launch more ranks`;
    },
    changes: 'work',
    planned: { reads: true },
  },
  mesh: {
    schema: meshSchema.nullable().default(null),
    says: 'for hybrid strategies: dpReplicate replicas of dpShard ranks each; the product of both numbers is the number of ranks, divided by tp · pp. `null`: one replica',
    form: '{ dpReplicate: 2, dpShard: 2 }',
    names: {
      fsdp: 'device_mesh',
      fullyShard: 'mesh',
      accelerate: ['parallelism_config_dp_replicate_size', 'parallelism_config_dp_shard_size'],
    },
    idle: (config: Read): string | null =>
      config.parallel.mesh === null || strategiesOf(config).some((name) => STRATEGIES[name].isHybrid)
        ? null
        : `${withoutCopies(config)}; use HYBRID_SHARD or _HYBRID_SHARD_ZERO2`,
    changes: 'work',
    planned: {
      reads: true,
      but: (config: Read, { gpus }: { readonly gpus?: number | undefined }): string | null => {
        const { mesh, strategy } = config.parallel;
        if (mesh === null) return null;
        if (!STRATEGIES[strategy].isHybrid || gpus === undefined) return null;
        const ranks = shardRanksOf(config, gpus);
        if (ranks === mesh.dpReplicate * mesh.dpShard) return null;
        return `is planned with ${ranks / mesh.dpShard} replicas of ${mesh.dpShard} ranks, on ${gpus} GPUs`;
      },
    },
  },
  reshardAfterForward: {
    schema: z
      .union([z.boolean(), z.int().min(2)])
      .nullable()
      .default(null),
    says: 'whether whole parameters are freed after forward; a number: parameters are resharded over this number of ranks. `null`: the strategy decides',
    form: 'true, false, a number of ranks from 2, or null',
    names: {
      fullyShard: 'reshard_after_forward',
      fairScale: 'reshard_after_forward',
      deepSpeed: 'zero_hpz_partition_size',
    },
    idle: (config: Read): string | null => unlessGathered(config),
    conflict: (config: Read): string | null => {
      const { mesh, reshardAfterForward: ranks } = config.parallel;
      if (mesh === null || typeof ranks !== 'number' || mesh.dpShard % ranks === 0) return null;
      return `${ranks} does not divide mesh.dpShard ${mesh.dpShard}; give true, false or a divisor of ${mesh.dpShard}`;
    },
    changes: 'work',
    planned: {
      reads: true,
      but: (config: Read): string | null => {
        const { reshardAfterForward: asked } = config.parallel;
        if (config.parallel.pp > 1 && asked !== false)
          return 'is planned as in PyTorch, whose pipelines free nothing after backward: a unit is gathered once per microbatch and once more per step, and null is planned as false';
        if (typeof asked === 'number')
          return 'is planned as true: parameters are freed after forward and gathered again from all ranks of the shard group';
        return asked === true
          ? "is planned like the default: the root's parameters are whole until its backward"
          : null;
      },
    },
  },
  wrap: {
    schema: wrapSchema.default('blocks'),
    says: "which modules become units besides the root. 'blocks': every block; 'root': none; 'linear': every Linear; 'moe': every block and every expert; or modules by size, class or name (`*` is one part of a name)",
    form: "'blocks', 'root', 'linear', 'moe', { minNumParams: 1e5 }, { layerCls: ['Block'] } or { modules: ['blocks.*'] }",
    names: {
      fsdp: 'auto_wrap_policy',
      accelerate: ['fsdp_auto_wrap_policy', 'fsdp_transformer_layer_cls_to_wrap', 'fsdp_min_num_params'],
    },
    hint: ", as 'blocks'",
    warns: ({ config }: Facts<Read>): string | null => {
      const shape = modelShape(config);
      if (config.parallel.wrap !== 'moe' || hasRouter(shape) || shape.kind === 'own') return null;
      return `'moe' has the same effect as 'blocks': ${kindOf(shape)?.wholeExperts?.wrap ?? "the model has no experts; give model.kind 'moe'"}`;
    },
    changes: 'work',
    planned: { refused: "is planned as 'blocks'" },
  },
  unitStrategies: {
    schema: z.array(unitStrategySchema).default([]),
    says: 'other strategies for some units, by module name (`*` is one part of a name); the first match wins',
    form: "[{ modules: 'blocks.*', strategy: 'SHARD_GRAD_OP' }]",
    warns: (facts: Facts<Read>): string | null => {
      const hybrid = facts.config.parallel.unitStrategies.find((unit) => STRATEGIES[unit.strategy].isHybrid);
      return hybrid === undefined ? null : withoutMesh(hybrid.strategy, facts);
    },
    changes: 'work',
    planned: { refused: 'is not read: every unit is planned under parallel.strategy' },
  },
  ignoredModules: {
    schema: z.array(z.string()).default([]),
    says: 'names of modules whose parameters stay whole and whose gradients are not reduced',
    form: "['wte', 'wpe']",
    names: { fsdp: 'ignored_modules', fullyShard: 'ignored_modules' },
    changes: 'loss',
    planned: { refused: 'is not read: all parameters are planned as part of units' },
  },
  syncModuleStates: {
    schema: z.boolean().default(false),
    says: "whether rank 0's initial values are sent to all ranks",
    names: {
      fsdp: 'sync_module_states',
      fullyShard: 'syncModuleStates',
      accelerate: 'fsdp_sync_module_states',
    },
    idle: (config: Read): string | null =>
      config.parallel.syncModuleStates
        ? 'has no effect on values: every rank makes the same initial values from the seed, or reads them from one file'
        : null,
    changes: 'nothing',
    planned: { ignored: 'it happens once, before the first step' },
  },
  forwardPrefetch: {
    schema: z.boolean().default(true),
    says: "whether the next unit is gathered while a unit's forward runs",
    names: {
      fsdp: 'forward_prefetch',
      fullyShard: 'forward_prefetch',
      accelerate: 'fsdp_forward_prefetch',
    },
    idle: (config: Read): string | null =>
      strategiesOf(config).every((name) => name === 'NO_SHARD') ? whole(config) : null,
    changes: 'work',
    planned: { refused: 'is not read: units are planned to be gathered in advance' },
  },
  backwardPrefetch: {
    schema: z.enum(['BACKWARD_PRE', 'BACKWARD_POST']).nullable().default('BACKWARD_PRE'),
    says: "when the next unit is gathered in backward: before or after the current unit's gradients are computed, or (`null`) on demand",
    form: "'BACKWARD_PRE', 'BACKWARD_POST' or null",
    names: {
      fsdp: 'backward_prefetch',
      fullyShard: 'backward_prefetch',
      accelerate: 'fsdp_backward_prefetch',
    },
    idle: (config: Read): string | null =>
      unlessGathered(config) ??
      (keepsToBackward(config)
        ? 'has no effect: parameters are whole from forward to backward, so backward gathers nothing'
        : null),
    changes: 'work',
    planned: { refused: "is planned as 'BACKWARD_PRE'" },
  },
  limitAllGathers: {
    schema: z.boolean().default(true),
    says: 'whether at most two all-gathers are in flight at once',
    names: { fsdp: 'limit_all_gathers', fullyShard: 'limit_all_gathers' },
    idle: (config: Read): string | null =>
      unlessGathered(config) ??
      (config.parallel.limitAllGathers
        ? null
        : 'false has no effect without setModulesToForwardPrefetch: here the CPU itself computes, so it never runs ahead of its all-gathers'),
    changes: 'work',
    planned: { refused: 'is not read: at most two all-gathers are planned to be in flight at once' },
  },
  bucketBytes: {
    schema: z
      .int()
      .min(1)
      .default(25 * 2 ** 20),
    says: 'size of a gradient bucket under NO_SHARD; the first bucket is closed at 1 MiB',
    names: { ddp: 'bucketBytes', torch: 'bucket_cap_mb' },
    hint: ', in bytes',
    idle: (config: Read): string | null =>
      strategiesOf(config).every((name) => name === 'NO_SHARD')
        ? null
        : `has no effect under ${config.parallel.strategy}: gradients are reduced per unit, and parallel.wrap decides the units`,
    changes: 'work',
    planned: { refused: 'is not read: a tenth of the gradients is assumed to be reduced after backward' },
  },
  noSync: {
    schema: z.boolean().nullable().default(null),
    says: 'whether gradients of all microbatches except the last stay local and whole. `null`: true for NO_SHARD and ZERO_1',
    names: { torch: 'no_sync' },
    idle: (config: Read): string | null =>
      config.parallel.noSync !== null && config.accumulation === 1
        ? 'has no effect with accumulation 1: the only microbatch of a step is its last'
        : null,
    warns: ({ config }: Facts<Read>): string | null =>
      config.parallel.noSync === true && config.parallel.strategy === 'ZERO_2'
        ? 'true stores whole gradients across microbatches, although ZERO_2 shards gradients to save that memory'
        : null,
    changes: 'work',
    planned: {
      refused:
        'is not read: sharded gradients are planned to be reduced in every microbatch, other gradients once per step',
    },
  },
  communicationDataType: {
    schema: floatSchema.nullable().default(null),
    says: 'dtype of gradients on the wire. `null`: mixedPrecision.reduceDtype',
    names: { deepSpeed: 'communication_data_type', torch: 'fp16_compress_hook' },
    changes: 'work',
    planned: { reads: true },
  },
  sparseGradients: {
    schema: z.boolean().default(false),
    says: 'whether gradients of embedding rows and of experts are reduced only if at least one rank used the row or the expert',
    names: { ddp: 'sparseGradients', fullyShard: 'sparseGradients', deepSpeed: 'sparse_gradients' },
    idle: (config: Read): string | null => {
      const shape = modelShape(config);
      if (!config.parallel.sparseGradients || isOwnModel(shape) || 'vocab' in shape) return null;
      return `has no effect with a ${shape.kind}: it has no token embedding, and no gradient is sparse`;
    },
    warns: ({ config }: Facts<Read>): string | null => {
      const shape = modelShape(config);
      if (!config.parallel.sparseGradients || !('tied' in shape && shape.tied)) return null;
      const rest = hasRouter(shape) ? 'only experts benefit' : 'no gradient is sparse';
      return `does not help the token embedding, whose gradient is dense: the output head shares its weight (model.tied) and uses every row. So ${rest}; set model.tied false`;
    },
    changes: 'work',
    planned: { refused: 'is not read: all gradients are planned as dense' },
  },
} as const satisfies Settings<Read>;

/** How ranks share a model. */
export const PARALLEL = {
  ...DATA_PARALLEL,
  commHook: COMM_HOOK,
  ...MODEL_PARALLEL,
  ...EXPERT_PARALLEL,
  ...PIPELINE,
};

export const parallelSchema = schemaOf(PARALLEL);

export type ParallelConfig = Readonly<z.output<typeof parallelSchema>>;
export type WrapConfig = z.output<typeof wrapSchema>;
