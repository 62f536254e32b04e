import { z } from 'zod';
import { size } from '../families/kinds';
import type { Facts, Setting } from '../setting';
import type { StrategyName } from '../strategies';
import { gradScalerOf, type PrecisionSettings, reduceDtypeOf, type ScalerSetting } from './precision';

/** PowerSGD's options, with torch's names and defaults, except that startPowerSGDIter is 1000 in torch. Source: PowerSGDState. */
const powerSgdSchema = z.strictObject({
  kind: z.literal('powerSGD'),
  matrixApproximationRank: size.default(1),
  startPowerSGDIter: z.int().min(0).default(0),
  minCompressionRate: z.number().positive().default(2),
  useErrorFeedback: z.boolean().default(true),
  warmStart: z.boolean().default(true),
  randomSeed: z.int().default(0),
});

const topKSchema = z.strictObject({
  kind: z.literal('topK'),
  ratio: z.number().positive().max(1).default(0.01),
  useErrorFeedback: z.boolean().default(true),
});

export const commHookSchema = z.discriminatedUnion('kind', [powerSgdSchema, topKSchema]);

/** How gradients are compressed before they are sent, with all options. */
export type CommHookConfig = Readonly<z.output<typeof commHookSchema>>;
/** The same options as a user writes them. */
export type CommHookInput = Readonly<z.input<typeof commHookSchema>>;
export type PowerSGDConfig = Readonly<z.output<typeof powerSgdSchema>>;
export type TopKConfig = Readonly<z.output<typeof topKSchema>>;

/** The part of a config that the rules below read. */
export interface CommHookRead extends PrecisionSettings, ScalerSetting {
  readonly parallel: PrecisionSettings['parallel'] & {
    readonly commHook: CommHookConfig | null;
    readonly strategy: StrategyName;
    readonly unitStrategies: readonly unknown[];
    readonly ignoredModules: readonly unknown[];
  };
}

/** The setting `parallel.commHook`. */
export const COMM_HOOK = {
  schema: commHookSchema.nullable().default(null),
  says:
    'how DDP compresses gradients: PowerSGD (the product of two thin matrices) or topK (the values with the largest magnitudes, and their indices). ' +
    'The error, which is not sent, is added to the next gradient (error feedback). Checkpoints do not store the error: a loaded run begins with an error of zero',
  form: "{ kind: 'powerSGD', matrixApproximationRank: 2 }, { kind: 'topK', ratio: 0.01 } or null",
  names: { ddp: 'commHook', torch: ['powerSGD_hook', 'register_comm_hook'], accelerate: 'comm_hook' },
  warns: ({ config, world }: Facts<CommHookRead>): string | null =>
    config.parallel.commHook === null || world > 1
      ? null
      : 'changes gradients and saves nothing: one rank sends no gradients',
  conflict: (config: CommHookRead): string | null => {
    const { commHook, strategy, unitStrategies, ignoredModules } = config.parallel;
    if (commHook === null) return null;
    if (strategy !== 'NO_SHARD' || unitStrategies.length + ignoredModules.length > 0) {
      return (
        `compresses gradients of DDP, but parallel.strategy ${strategy}${strategy === 'NO_SHARD' ? ' with unitStrategies or ignoredModules' : ''} ` +
        "reduces gradients unit by unit; set strategy 'NO_SHARD' alone, or leave out the hook"
      );
    }
    const wire = reduceDtypeOf(config);
    if (wire !== 'float32')
      return `compresses float32 gradients, but gradients are to be sent as ${wire}; set mixedPrecision.reduceDtype 'fp32', or leave out the hook`;
    return gradScalerOf(config) !== null
      ? 'stores errors for the next step, but gradScaler changes the scale of gradients between steps; leave out one of them'
      : null;
  },
  changes: 'loss',
  planned: {
    reads: true,
    but: (config: CommHookRead): string | null =>
      config.parallel.commHook === null
        ? null
        : 'is planned with the bytes that it sends, but without the time to compress and the memory of errors (4 bytes per compressed parameter)',
  },
} as const satisfies Setting<CommHookRead>;
