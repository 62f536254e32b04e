import { LION_DEFAULTS } from '../../config';
import type { CommonOptions } from './optimizer-options';
import { optimizerClass } from './rule-optimizer';
import { floatStates, type UpdateRule } from './update-rule';

/** The settings of Lion, with the defaults of its authors' code. */
export interface LionOptions extends CommonOptions {
  readonly betas?: readonly [number, number];
  /** Decoupled weight decay: a step first multiplies parameters by 1 - lr · weightDecay. */
  readonly weightDecay?: number;
}

/**
 * Lion: each element moves by lr, against the sign of a weighted mean of its moment and its gradient. There is one moment per
 * element. A good rate is 3 to 10 times smaller than a good rate for AdamW, and a good weight decay is larger by the same
 * factor.
 * Throws: CONFIG for an unknown option. Source: Chen et al. 2023, Symbolic Discovery of Optimization Algorithms, algorithm 2;
 * the defaults are the defaults of google/automl's lion_pytorch.py.
 */
export class Lion extends optimizerClass<LionOptions>('Lion', LION_DEFAULTS, lionRule) {}

/** Returns the rule of Lion. */
export function lionRule({
  betas,
  weightDecay,
  maximize,
}: Omit<Required<LionOptions>, 'lr' | 'fused'>): UpdateRule {
  const stateNames = ['exp_avg'];
  return {
    stateNames,
    granularity: 1,
    settings: { betas, weightDecay },
    maximize,
    createState: (memory, size, tag) =>
      floatStates(
        memory,
        stateNames,
        () => memory.zeros(size, tag),
        (range, [expAvg]) => {
          if (expAvg === undefined) return; // never, because the name is in `stateNames`
          const offsets = { ...range.offsets, expAvg: range.offset };
          const own = range.settings;
          const [beta1, beta2] = own.betas ?? betas;
          memory.updates.lion({
            ...range,
            expAvg,
            offsets,
            beta1,
            beta2,
            weightDecay: own.weightDecay ?? weightDecay,
          });
        },
      ),
  };
}
