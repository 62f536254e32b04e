import type { Engine } from '../backend/engine';
import { ADAMW_DEFAULTS } from '../config/settings/optimizer';
import type { HasStates } from './optimizer';
import { checkedOptions } from './optimizer-options';
import { type OptimizerPlacement, RuleOptimizer } from './rule-optimizer';
import { floatStates, type UpdateRule } from './update-rule';

/** AdamW's settings; defaults are torch.optim.AdamW's. */
export interface AdamWOptions {
  readonly lr?: number;
  readonly betas?: readonly [number, number];
  readonly eps?: number;
  /** Decoupled: parameters shrink by lr · weightDecay before the step. */
  readonly weightDecay?: number;
  /** Goes along the gradient: the loss grows. Default false. */
  readonly maximize?: boolean;
  /** Accepted because torch has it; the update is always one pass. */
  readonly fused?: boolean;
}

/**
 * AdamW for whole parameters and for flat shards: the update is element-wise, so a shard's update is a part of the
 * whole update.
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

/** AdamW's update with float32 moments. */
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
          if (expAvg === undefined || expAvgSq === undefined) return; // one per entry of stateNames
          const offsets = { ...range.offsets, expAvg: range.offset, expAvgSq: range.offset };
          memory.updates.adamW({ ...range, ...factors, expAvg, expAvgSq, offsets });
        },
      ),
  };
}

/** The settings by the names of the engine's update. */
export function adamFactors({
  betas,
  eps,
  weightDecay,
}: Required<Pick<AdamWOptions, 'betas' | 'eps' | 'weightDecay'>>) {
  return { beta1: betas[0], beta2: betas[1], eps, weightDecay };
}
