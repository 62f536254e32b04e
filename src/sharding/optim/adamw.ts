import { ADAM_DEFAULTS, ADAMW_DEFAULTS } from '../../config';
import type { CommonOptions } from './optimizer-options';
import { optimizerClass } from './rule-optimizer';
import { floatStates, type GroupSettings, type UpdateRule } from './update-rule';

/** The settings of AdamW and of Adam, with the defaults of torch.optim. */
export interface AdamWOptions extends CommonOptions {
  readonly betas?: readonly [number, number];
  readonly eps?: number;
  /**
   * AdamW's weight decay is decoupled, so a step first multiplies parameters by 1 - lr · weightDecay. Adam adds weightDecay ·
   * parameter to the gradient.
   */
  readonly weightDecay?: number;
  /** Whether the update divides by the largest second moment so far, which is stored as a third state. Default false. */
  readonly amsgrad?: boolean;
}

/**
 * AdamW, for whole parameters and for flat shards. The update is element-wise, so a shard's update equals the same part of the
 * whole parameter's update.
 * Throws: CONFIG for an unknown option. Source: Loshchilov and Hutter 2019, with torch.optim.AdamW's order of operations;
 * amsgrad: Reddi et al. 2018.
 */
export class AdamW extends optimizerClass<AdamWOptions>('AdamW', ADAMW_DEFAULTS, adamWRule) {}

/** Adam: AdamW whose weight decay is part of the gradient. Throws: CONFIG for an unknown option. Source: torch.optim.Adam. */
export class Adam extends optimizerClass<AdamWOptions>('Adam', ADAM_DEFAULTS, (settings) =>
  adamWRule(settings, false),
) {}

/** The settings of a rule: the options of an optimizer, without the rate. */
export type AdamSettings = Omit<Required<AdamWOptions>, 'lr' | 'fused'>;

/** Returns the rule of AdamW, or of Adam if the weight decay is not decoupled, with float32 moments. */
export function adamWRule(settings: AdamSettings, isDecoupled = true): UpdateRule {
  const stateNames = ['exp_avg', 'exp_avg_sq', ...(settings.amsgrad ? ['max_exp_avg_sq'] : [])];
  return {
    stateNames,
    granularity: 1,
    settings: adamSettings(settings),
    maximize: settings.maximize,
    createState: (memory, size, tag) =>
      floatStates(
        memory,
        stateNames,
        () => memory.zeros(size, tag),
        (range, [expAvg, expAvgSq, maxExpAvgSq = null]) => {
          if (expAvg === undefined || expAvgSq === undefined) return; // never, because both names are in `stateNames`
          const { offset } = range;
          const offsets = { ...range.offsets, expAvg: offset, expAvgSq: offset, maxExpAvgSq: offset };
          const states = { expAvg, expAvgSq, maxExpAvgSq, offsets };
          memory.updates.adamW({
            ...range,
            ...adamFactors(settings, range.settings),
            isDecoupled,
            ...states,
          });
        },
      ),
  };
}

type Factors = Required<Pick<AdamWOptions, 'betas' | 'eps' | 'weightDecay'>>;

/** Returns the settings that may differ between groups of parameters. */
export function adamSettings({ betas, eps, weightDecay }: Factors): Factors {
  return { betas, eps, weightDecay };
}

/**
 * Returns the settings of a group under the names that the engine's update uses; a setting that the group lacks comes
 * from the optimizer.
 */
export function adamFactors(all: Factors, group: GroupSettings) {
  const { betas = all.betas, eps = all.eps, weightDecay = all.weightDecay } = group;
  return { beta1: betas[0], beta2: betas[1], eps, weightDecay };
}
