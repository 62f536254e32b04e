import { SGD_DEFAULTS } from '../../config';
import { ConfigError } from '../../core';
import type { CommonOptions } from './optimizer-options';
import { optimizerClass } from './rule-optimizer';
import { floatStates, type UpdateRule } from './update-rule';

/** The settings of SGD, with the defaults of torch.optim.SGD. */
export interface SgdOptions extends CommonOptions {
  readonly momentum?: number;
  readonly nesterov?: boolean;
  /** Weight decay that is not decoupled: weightDecay · parameter is added to the gradient. */
  readonly weightDecay?: number;
}

/**
 * Stochastic gradient descent with momentum, for whole parameters and for shards. Throws: CONFIG for an unknown option,
 * and for nesterov without momentum. Source: torch.optim.SGD with dampening 0.
 */
export class SGD extends optimizerClass<SgdOptions>('SGD', SGD_DEFAULTS, sgdRule) {}

/** Returns the rule of SGD; without momentum, SGD has no state. */
export function sgdRule({
  momentum,
  nesterov,
  weightDecay,
  maximize,
}: Omit<Required<SgdOptions>, 'lr' | 'fused'>): UpdateRule {
  if (nesterov && momentum === 0) {
    throw new ConfigError(
      'SGD: nesterov needs a momentum, and momentum is 0; give momentum (0.9), or nesterov: false.',
    );
  }
  const stateNames = momentum === 0 ? [] : ['momentum_buffer'];
  return {
    stateNames,
    granularity: 1,
    settings: { momentum, nesterov, weightDecay },
    maximize,
    createState: (memory, size, tag) =>
      floatStates(
        memory,
        stateNames,
        () => memory.zeros(size, tag),
        (range, [momentumBuffer = null]) => {
          const offsets = { ...range.offsets, momentumBuffer: range.offset };
          const own = range.settings;
          memory.updates.sgd({
            ...range,
            momentumBuffer,
            offsets,
            momentum: own.momentum ?? momentum,
            nesterov: own.nesterov ?? nesterov,
            weightDecay: own.weightDecay ?? weightDecay,
          });
        },
      ),
  };
}
