import type { Engine } from '../backend/engine';
import { ADAMW_DEFAULTS } from '../config/settings/optimizer';
import type { HasStates } from './optimizer';
import { type CommonOptions, checkedOptions } from './optimizer-options';
import { type OptimizerPlacement, RuleOptimizer } from './rule-optimizer';
import { floatStates, type UpdateRule } from './update-rule';

/** The settings of AdamW, with the defaults of torch.optim.AdamW. */
export interface AdamWOptions extends CommonOptions {
  readonly betas?: readonly [number, number];
  readonly eps?: number;
  /** Decoupled weight decay: a step first multiplies parameters by 1 - lr · weightDecay. */
  readonly weightDecay?: number;
}

/**
 * AdamW, for whole parameters and for flat shards. Its update is element-wise, so a shard's update equals that part of the
 * whole parameter's update.
 * Throws: CONFIG for an unknown option. Source: Loshchilov and Hutter 2019, with torch.optim.AdamW's order of operations.
 */
export class AdamW extends RuleOptimizer {
  constructor(
    engine: Engine,
    model: HasStates,
    options: AdamWOptions = {},
    placement: OptimizerPlacement = {},
  ) {
    const settings = checkedOptions<Required<AdamWOptions>>('AdamW', options, ADAMW_DEFAULTS);
    super(engine, model, adamWRule(settings), settings.lr, placement);
  }
}

/** Returns the rule of AdamW with float32 moments. */
export function adamWRule(settings: Omit<Required<AdamWOptions>, 'lr' | 'fused'>): UpdateRule {
  const stateNames = ['exp_avg', 'exp_avg_sq'];
  const factors = adamFactors(settings);
  return {
    stateNames,
    granularity: 1,
    maximize: settings.maximize,
    createState: (memory, size, tag) =>
      floatStates(
        memory,
        stateNames,
        () => memory.zeros(size, tag),
        (range, [expAvg, expAvgSq]) => {
          if (expAvg === undefined || expAvgSq === undefined) return; // never: both are in stateNames
          const offsets = { ...range.offsets, expAvg: range.offset, expAvgSq: range.offset };
          memory.updates.adamW({ ...range, ...factors, expAvg, expAvgSq, offsets });
        },
      ),
  };
}

/** Returns the settings under the names that the engine's update uses. */
export function adamFactors({
  betas,
  eps,
  weightDecay,
}: Required<Pick<AdamWOptions, 'betas' | 'eps' | 'weightDecay'>>) {
  return { beta1: betas[0], beta2: betas[1], eps, weightDecay };
}
