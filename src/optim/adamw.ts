import type { Engine } from '../backend/engine';
import { ADAMW_DEFAULTS } from '../config/settings/optimizer';
import { FloatStates } from './float-states';
import type { HasStates } from './optimizer';
import { checkedOptions } from './optimizer-options';
import { type OptimizerPlacement, RuleOptimizer } from './rule-optimizer';
import type { UpdateRule } from './update-rule';

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
export function adamWRule({
  betas,
  eps,
  weightDecay,
  maximize,
}: Omit<Required<AdamWOptions>, 'lr' | 'fused'>): UpdateRule {
  const stateNames = ['exp_avg', 'exp_avg_sq'];
  const [beta1, beta2] = betas;
  return {
    stateNames,
    granularity: 1,
    maximize,
    createState: (memory, size, tag) =>
      new FloatStates(memory, stateNames, { size, tag }, (range, arrays) => {
        const [expAvg, expAvgSq] = arrays;
        if (expAvg === undefined || expAvgSq === undefined) return; // one per entry of stateNames
        const { param, grad, offset, length, lr, step, gradScale } = range;
        const offsets = {
          param: range.paramOffset,
          grad: range.gradOffset,
          expAvg: offset,
          expAvgSq: offset,
        };
        memory.updates.adamW({
          param,
          grad,
          expAvg,
          expAvgSq,
          offsets,
          length,
          lr,
          beta1,
          beta2,
          eps,
          weightDecay,
          step,
          gradScale,
        });
      }),
  };
}
