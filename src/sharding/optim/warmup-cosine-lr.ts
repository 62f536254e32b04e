import { SCHEDULE_DEFAULTS } from '../../config';
import { ConfigError } from '../../core';
import { LRSchedule, rateOf, type Scheduled } from './lr-schedule';
import { checkedOptions } from './optimizer-options';

/** The options of `WarmupCosineLR`; steps are steps of the optimizer. */
export interface WarmupCosineOptions {
  /** The number of steps in which the rate rises. The last of these steps has the optimizer's rate. Default 0. */
  readonly warmupSteps?: number;
  /** The first step at which the rate is etaMin. */
  readonly maxSteps: number;
  readonly etaMin?: number;
}

/**
 * Sets an optimizer's learning rate for each step n (from 1): n / warmupSteps of the optimizer's rate during warm-up, then
 * half a cosine down to etaMin. The constructor sets the rate of step 1; call `step()` after each step of the optimizer.
 * Source: the cosine is DeepSpeed's WarmupCosineLR; the warm-up is torchtitan's, because DeepSpeed's linear warm-up starts
 * with a rate of 0, which wastes the first step.
 */
export class WarmupCosineLR extends LRSchedule {
  /** Throws: CONFIG if maxSteps is missing or not above warmupSteps. */
  constructor(optimizer: Scheduled, options: WarmupCosineOptions) {
    const defaults = { warmupSteps: 0, maxSteps: 0, etaMin: 0 };
    const settings = checkedOptions<Required<WarmupCosineOptions>>('WarmupCosineLR', options, defaults);
    const { warmupSteps, maxSteps } = settings;
    if (maxSteps < 1 || maxSteps <= warmupSteps) {
      throw new ConfigError(
        `WarmupCosineLR: maxSteps ${maxSteps} with warmupSteps ${warmupSteps} leaves no steps for the cosine; give a maxSteps that is at least 1 and larger than warmupSteps.`,
      );
    }
    super(optimizer, rateOf({ ...SCHEDULE_DEFAULTS, ...settings }, maxSteps));
  }
}
