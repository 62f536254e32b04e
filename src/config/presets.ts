import type { TrainConfigInput } from './train-config';

/** Configs that have a name on the command line. Source: bench is the work of the torch benchmark, value for value. */
export const PRESETS = {
  tiny: { model: 'tiny', data: 'typescript', batch: 4 },
  bench: {
    model: 'bench',
    data: 'synthetic',
    batch: 8,
    optimizer: { lr: 1e-3, betas: [0.9, 0.95], eps: 1e-8, weightDecay: 0.1 },
    clipNorm: 1,
  },
} as const satisfies Record<string, TrainConfigInput>;
