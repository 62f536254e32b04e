import { z } from 'zod';
import { type Settings, schemaOf } from '../setting';

const fraction = z.number().min(0).lt(1);

/** AdamW's default settings, in cells and in configs. Source: torch.optim.AdamW. */
export const ADAMW_DEFAULTS = {
  lr: 1e-3,
  betas: [0.9, 0.999],
  eps: 1e-8,
  weightDecay: 0.01,
  amsgrad: false,
  maximize: false,
  fused: true,
} as const;

/** Adam's default settings. Source: torch.optim.Adam. */
export const ADAM_DEFAULTS = { ...ADAMW_DEFAULTS, weightDecay: 0 } as const;

/** Lion's default settings. Source: google/automl's lion_pytorch.py, by the authors of Lion. */
export const LION_DEFAULTS = {
  lr: 1e-4,
  betas: [0.9, 0.99],
  weightDecay: 0,
  maximize: false,
  fused: true,
} as const;

/** SGD's default settings. Source: torch.optim.SGD. */
export const SGD_DEFAULTS = {
  lr: 1e-3,
  momentum: 0,
  nesterov: false,
  weightDecay: 0,
  maximize: false,
  fused: true,
} as const;

/** The default settings of 8-bit AdamW. Source: bitsandbytes' AdamW8bit. */
export const ADAMW_8BIT_DEFAULTS = {
  lr: 1e-3,
  betas: [0.9, 0.999],
  eps: 1e-8,
  weightDecay: 0.01,
  maximize: false,
  fused: true,
  blockSize: 256,
} as const;

/** The minimum number of elements of a buffer with 8-bit moments. Source: bitsandbytes' min_8bit_size. */
export const MIN_8BIT_SIZE = 4096;

/** The defaults that depend on the kind of optimizer. */
const DEFAULTS_OF_KIND = {
  adamW: ADAMW_DEFAULTS,
  adam: ADAM_DEFAULTS,
  adamW8bit: ADAMW_8BIT_DEFAULTS,
  sgd: { ...SGD_DEFAULTS, betas: ADAMW_DEFAULTS.betas },
  lion: LION_DEFAULTS,
} as const;

/**
 * Optimizers that divide a gradient by its size, or use only its sign, so that a small gradient gives as large an
 * update as a large one.
 */
export const NORMALIZING_OPTIMIZERS: readonly string[] = ['adamW', 'adam', 'adamW8bit', 'lion'];

/** The part of a config that the rules below read. */
export interface Read {
  readonly optimizer: OptimizerConfig;
}

const SAME_WORK = 'the work does not depend on the value';

const names = z.union([z.string(), z.array(z.string())]).optional();

/** A group of parameters with its own settings. */
const groupSchema = z.strictObject({
  modules: names,
  parameters: names,
  lr: z.number().min(0).optional(),
  weightDecay: z.number().min(0).optional(),
  betas: z.tuple([fraction, fraction]).optional(),
  eps: z.number().positive().optional(),
  momentum: fraction.optional(),
  nesterov: z.boolean().optional(),
});

/** The settings of all optimizers. */
export const OPTIMIZER = {
  kind: {
    schema: z.enum(['adamW', 'adam', 'adamW8bit', 'sgd', 'lion']).default('adamW'),
    says: 'the optimizer; lion stores one moment (Chen et al. 2023); adamW8bit stores each moment in one byte per element (Dettmers et al. 2022, block-wise quantization)',
    names: { transformers: 'optim' },
    words: { adamw: 'adamW', adamwtorch: 'adamW', adam8bit: 'adamW8bit', adamw8bit: 'adamW8bit' },
    changes: 'loss',
    planned: {
      reads: true,
      but: (config: Read): string | null => sameAsAdamW(config),
    },
  },
  lr: {
    schema: z.number().min(0).optional(),
    says: 'learning rate. Default: 0.001; for lion 0.0001',
    names: { torch: 'lr', transformers: 'learning_rate', deepSpeed: 'warmup_max_lr' },
    changes: 'loss',
    planned: { ignored: SAME_WORK },
  },
  betas: {
    schema: z.tuple([fraction, fraction]).optional(),
    says: "decay rates of Adam's moments; for lion, the rates of the update's direction and of the moment. Default: [0.9, 0.999]; for lion [0.9, 0.99]",
    form: '[0.9, 0.999]',
    names: { torch: 'betas', transformers: ['adam_beta1', 'adam_beta2'] },
    idle: (config: Read): string | null => withoutSecondMoment(config, ['sgd']),
    changes: 'loss',
    planned: { ignored: SAME_WORK },
  },
  eps: {
    schema: z.number().positive().default(ADAMW_DEFAULTS.eps),
    says: "added to Adam's and AdamW's denominator",
    names: { torch: 'eps', transformers: 'adam_epsilon' },
    idle: (config: Read): string | null => withoutSecondMoment(config),
    changes: 'loss',
    planned: { ignored: SAME_WORK },
  },
  weightDecay: {
    schema: z.number().min(0).optional(),
    says: 'weight decay: decoupled in AdamW and Lion, added to the gradient in Adam and SGD. Default: 0.01; for adam, lion and sgd 0',
    names: { torch: 'weight_decay', transformers: 'weight_decay' },
    changes: 'loss',
    planned: { ignored: SAME_WORK },
  },
  amsgrad: {
    schema: z.boolean().default(ADAMW_DEFAULTS.amsgrad),
    says: 'whether adam and adamW divide by the largest second moment so far, which is a third state (Reddi et al. 2018)',
    names: { torch: 'amsgrad' },
    idle: (config: Read): string | null => withoutMaxima(config),
    changes: 'loss',
    planned: { reads: true },
  },
  momentum: {
    schema: fraction.default(SGD_DEFAULTS.momentum),
    says: 'momentum of sgd',
    names: { torch: 'momentum' },
    idle: (config: Read): string | null => withoutKind('sgd', config, '', '; adamW has betas'),
    changes: 'loss',
    planned: { reads: true },
  },
  nesterov: {
    schema: z.boolean().default(SGD_DEFAULTS.nesterov),
    says: "whether sgd uses Nesterov's momentum",
    names: { torch: 'nesterov' },
    idle: (config: Read): string | null => withoutKind('sgd', config, '', '; adamW has betas'),
    // In this case, torch.optim.SGD raises ValueError.
    conflict: (config: Read): string | null =>
      config.optimizer.kind === 'sgd' && config.optimizer.nesterov && config.optimizer.momentum === 0
        ? 'true needs a momentum, but momentum is 0; give optimizer.momentum, for example 0.9'
        : null,
    changes: 'loss',
    planned: { ignored: SAME_WORK },
  },
  maximize: {
    schema: z.boolean().default(false),
    says: 'whether the optimizer follows the gradient upward, so that the loss grows',
    names: { torch: 'maximize' },
    changes: 'loss',
    planned: { ignored: SAME_WORK },
  },
  fused: {
    schema: z.boolean().default(ADAMW_DEFAULTS.fused),
    says: "whether Adam's update on ranks of PyTorch is one kernel; if not, it is a few kernels over lists of tensors (foreach). This library's own ranks update in one pass over the shard in any case",
    names: { torch: 'fused' },
    idle: (config: Read): string | null =>
      config.optimizer.fused
        ? null
        : "false has no effect on this library's ranks: their update is one pass over the shard in any case",
    changes: 'work',
    planned: { refused: "is not read: a plan assumes the framework's default implementation of the update" },
  },
  blockSize: {
    schema: z.int().min(16).default(ADAMW_8BIT_DEFAULTS.blockSize),
    says: 'number of elements that share a scale in adamW8bit',
    idle: (config: Read): string | null => withoutKind('adamW8bit', config, ', whose states are float32'),
    changes: 'loss',
    planned: { reads: true },
  },
  groups: {
    schema: z.array(groupSchema).default([]),
    says: "parameters with their own lr, weightDecay, betas, eps, momentum or nesterov, by the names of modules and parameters, by the ends of their names, or by the modules' classes; the first match wins",
    form: "[{ modules: 'LayerNorm', parameters: 'bias', weightDecay: 0 }]",
    names: { torch: 'param_groups' },
    changes: 'loss',
    planned: { ignored: SAME_WORK },
  },
  delayedUpdate: {
    schema: z.boolean().default(false),
    says: "whether each step applies the gradients of the previous step (ZeRO-Offload's one-step delayed update)",
    changes: 'loss',
    planned: { refused: 'is not read: each step is planned to wait for its own gradients' },
  },
} as const satisfies Settings<Read>;

/** The schema without the defaults that depend on the kind. */
export const optimizerFields = schemaOf(OPTIMIZER);

export const optimizerSchema = optimizerFields.transform((given) => {
  const { lr, betas, weightDecay } = DEFAULTS_OF_KIND[given.kind];
  const [beta1, beta2] = betas;
  return {
    ...given,
    lr: given.lr ?? lr,
    betas: given.betas ?? ([beta1, beta2] as [number, number]),
    weightDecay: given.weightDecay ?? weightDecay,
  };
});

export type OptimizerConfig = Readonly<z.output<typeof optimizerSchema>>;

function withoutSecondMoment({ optimizer }: Read, kinds: readonly string[] = ['sgd', 'lion']): string | null {
  const { kind } = optimizer;
  return kinds.includes(kind) ? `has no effect with ${kind}, which has no second moment; use adamW` : null;
}

function sameAsAdamW({ optimizer }: Read): string | null {
  return optimizer.kind === 'adam' ? 'is planned as adamW, which has the same states and work' : null;
}

function withoutMaxima({ optimizer: { kind, amsgrad } }: Read): string | null {
  if (!amsgrad || kind === 'adam' || kind === 'adamW') return null;
  return `has no effect with ${kind}; it is a setting of adam and adamW`;
}

function withoutKind(
  kind: OptimizerConfig['kind'],
  { optimizer }: Read,
  because = '',
  instead = '',
): string | null {
  if (optimizer.kind === kind) return null;
  return `has no effect with ${optimizer.kind}${because}; it is a setting of ${kind}${instead}`;
}
