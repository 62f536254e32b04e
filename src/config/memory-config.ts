import { z } from 'zod';

/** What lies on the host instead of the device. Source: DeepSpeed's offload_optimizer and offload_param; FSDP's CPUOffload. */
export const offloadSchema = z.strictObject({
  /** Optimizer states; the step runs on the host. */
  optimizer: z.boolean().default(false),
  /** Shards of parameters and gradients; the step runs on the host. */
  parameters: z.boolean().default(false),
  /** What forward saves for backward. */
  activations: z.boolean().default(false),
});

export type OffloadConfig = Readonly<z.output<typeof offloadSchema>>;

/**
 * Which blocks run forward again in backward instead of saving what they need.
 * 'full': all. everyNth: each n-th, from the first. saveOps: all, but results of these operations are saved.
 * budgetBytes: the choice that saves at most so many bytes and costs least time, solved.
 * Source: torch.utils.checkpoint and its selective contexts; torchtitan's activation_checkpoint.
 */
export const activationCheckpointingSchema = z.union([
  z.enum(['full', 'selective']),
  z.strictObject({ everyNth: z.int().min(1) }),
  z.strictObject({ saveOps: z.array(z.string()).min(1) }),
  z.strictObject({ budgetBytes: z.number().min(0) }),
]);

export type ActivationCheckpointingConfig = Readonly<z.output<typeof activationCheckpointingSchema>>;
