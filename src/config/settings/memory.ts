import { z } from 'zod';
import { type Facts, type Settings, schemaOf } from '../setting';
import { anyGathered } from './gathering';
import type { ParallelConfig } from './parallel';

/** The part of a config that the rules below read. */
export interface Read {
  readonly parallel: ParallelConfig;
  readonly offload: OffloadConfig;
  readonly activationCheckpointing: ActivationCheckpointingConfig | null;
}

/** Settings that say which values are stored on the host instead of the device. */
export const OFFLOAD = {
  optimizer: {
    schema: z.boolean().default(false),
    says: 'optimizer states are stored on the host, and the optimizer runs there',
    names: {
      deepSpeed: 'offload_optimizer',
      accelerate: ['offload_optimizer_device', 'megatron_lm_optimizer_cpu_offload'],
      diffSynth: 'enable_optimizer_cpu_offload',
    },
    hint: ': true',
    warns: ({ config }: Facts<Read>): string | null =>
      config.offload.optimizer && config.offload.parameters && anyGathered(config)
        ? 'is already part of offload.parameters: if shards are on the host, the optimizer runs there'
        : null,
    changes: 'work',
    planned: { reads: true },
  },
  parameters: {
    schema: z.boolean().default(false),
    says: 'shards of parameters and gradients are stored on the host, and the optimizer runs there',
    names: {
      fsdp: 'cpu_offload',
      fullyShard: ['offload_policy', 'offload_parameters'],
      fairScale: ['cpu_offload', 'move_params_to_cpu'],
      deepSpeed: 'offload_param',
      accelerate: ['offload_param_device', 'fsdp_offload_params'],
      diffSynth: 'enable_model_cpu_offload',
    },
    hint: ': true',
    idle: (config: Read): string | null =>
      config.offload.parameters && !anyGathered(config)
        ? `has no effect under ${config.parallel.strategy}: parameters are whole and in use all the time (DeepSpeed: offload_param needs stage 3); ` +
          'use FULL_SHARD, or offload.optimizer'
        : null,
    changes: 'work',
    planned: { reads: true },
  },
  activations: {
    schema: z.boolean().default(false),
    says: 'values that forward saves for backward are stored on the host',
    names: {
      deepSpeed: 'cpu_checkpointing',
      accelerate: 'fsdp_activation_checkpointing_offload',
      diffSynth: 'use_gradient_checkpointing_offload',
    },
    changes: 'work',
    planned: { refused: 'is not read: activations are planned on the GPU' },
  },
} as const satisfies Settings<Read>;

export const offloadSchema = schemaOf(OFFLOAD);

export type OffloadConfig = Readonly<z.output<typeof offloadSchema>>;

/** Choices of the operations that run again in every block: all operations, or all that cost less than a matmul or attention. */
export const RECOMPUTED = ['selective', 'full'] as const;

const activationCheckpointingSchema = z.union([
  z.enum(RECOMPUTED),
  z.strictObject({ everyNth: z.int().min(1) }),
  z.strictObject({ saveOps: z.array(z.string()).min(1) }),
  z.strictObject({ budgetBytes: z.number().min(0) }),
]);

export type ActivationCheckpointingConfig = Readonly<z.output<typeof activationCheckpointingSchema>>;

/** Source: torch.utils.checkpoint and its selective contexts; torchtitan's activation_checkpoint. */
export const ACTIVATION_CHECKPOINTING = {
  schema: activationCheckpointingSchema.nullable().default(null),
  says: "which blocks run their forward again in backward, so that the results of the first forward are not stored. 'full': all blocks; 'selective': all blocks, but the results of matmuls and attention are stored; saveOps: all blocks, but the results of the named operations are stored; everyNth: each n-th block, from the first; budgetBytes: the choice that takes the least time and stores at most this number of bytes",
  form: "'full', 'selective', { everyNth: 4 }, { saveOps: ['matMul'] }, { budgetBytes: 1e6 } or null",
  names: {
    torch: 'checkpoint_wrapper',
    transformers: ['gradient_checkpointing', 'activation_checkpointing'],
    accelerate: [
      'fsdp_activation_checkpointing',
      'megatron_lm_recompute_activations',
      'megatron_lm_recompute_granularity',
    ],
    diffSynth: 'use_gradient_checkpointing',
  },
  hint: ": 'full'",
  changes: 'work',
  planned: {
    reads: true,
    but: ({ activationCheckpointing: chosen }: Read): string | null =>
      typeof chosen === 'object' && chosen !== null && !('everyNth' in chosen)
        ? "is planned as 'selective'"
        : null,
  },
} as const;
