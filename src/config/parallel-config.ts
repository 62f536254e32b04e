import { z } from 'zod';
import { size } from './model-config';
import { floatSchema } from './precision-config';
import { strategySchema } from './strategies';

/** Which modules become units of their own. */
const wrapSchema = z.union([
  /** Every block; none but the root; every Linear; every expert, and what is not one by blocks. */
  z.enum(['blocks', 'root', 'linear', 'moe']),
  /** Source: size_based_auto_wrap_policy. */
  z.strictObject({ minNumParams: size }),
  /** Classes by name, as 'Block'. Source: transformer_auto_wrap_policy. */
  z.strictObject({ layerCls: z.array(z.string()).min(1) }),
  /** Modules by name, '*' for one part: 'blocks.*.fc1'. Source: ModuleWrapPolicy. */
  z.strictObject({ modules: z.array(z.string()).min(1) }),
]);

export const meshSchema = z.strictObject({ dpReplicate: size, dpShard: size });
export const unitStrategySchema = z.strictObject({ modules: z.string(), strategy: strategySchema });

export const parallelSchema = z.strictObject({
  strategy: strategySchema.default('FULL_SHARD'),
  /** Copies of the shards times ranks that share them, together the world; of the hybrid strategies. null: one copy. */
  mesh: meshSchema.nullable().default(null),
  /** Whether whole parameters are freed after forward; a number of ranks: kept in shards over so many. null: by strategy. */
  reshardAfterForward: z
    .union([z.boolean(), z.int().min(2)])
    .nullable()
    .default(null),
  wrap: wrapSchema.default('blocks'),
  /** Other strategies for some units, by module name with '*' for one part; the first that fits counts. */
  unitStrategies: z.array(unitStrategySchema).default([]),
  /** Modules, by name, that stay whole and whose gradients are not reduced. Source: FSDP's ignored_modules. */
  ignoredModules: z.array(z.string()).default([]),
  /** Rank 0's initial values are sent to all. Source: FSDP's sync_module_states. */
  syncModuleStates: z.boolean().default(false),
  /** Gathers the next unit while a unit's forward runs. */
  forwardPrefetch: z.boolean().default(true),
  /** When the next unit is gathered in backward: before or after the unit's gradients are computed, or on demand. */
  backwardPrefetch: z.enum(['BACKWARD_PRE', 'BACKWARD_POST']).nullable().default('BACKWARD_PRE'),
  /** At most two units' gathers at once. Source: FSDP's limit_all_gathers. */
  limitAllGathers: z.boolean().default(true),
  /** Size of a bucket of gradients under NO_SHARD. Source: bucket_cap_mb of torch's DistributedDataParallel. */
  bucketBytes: size.default(25 * 2 ** 20),
  /** Gradients of micro-batches but the last stay local and whole. null: by strategy (NO_SHARD and ZERO_1 do). */
  noSync: z.boolean().nullable().default(null),
  /** Type of gradients on the wire. Source: DeepSpeed's communication_data_type; torch's fp16_compress_hook. */
  communicationDataType: floatSchema.nullable().default(null),
  /** Only rows of tables and experts that some rank touched travel. Source: DeepSpeed's sparse_gradients. */
  sparseGradients: z.boolean().default(false),
});

export type ParallelConfig = Readonly<z.output<typeof parallelSchema>>;
export type WrapConfig = z.output<typeof wrapSchema>;
