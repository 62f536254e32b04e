import { decayStepsOf, type ScheduleConfig } from '../../config';
import { ConfigError } from '../../core';
import { requireGroups } from './optimizer';
import { checkedOptions } from './optimizer-options';

/** The object whose rate a schedule sets: an optimizer, or the optimizer's groups if there are several. */
export interface Scheduled {
  lr: number;
  readonly paramGroups?: readonly { lr: number }[];
}

/** The state that a checkpoint stores; plain JSON. */
export interface ScheduleState {
  /** The number of steps so far. */
  readonly steps: number;
  /** The first group's rate without the schedule. */
  readonly baseLr: number;
  /** Each group's rate without the schedule; undefined if there is one group. */
  readonly baseLrs?: readonly number[] | undefined;
  /** Each group's rate of the next step, if a rate was set by hand and the schedule would give another rate. */
  readonly setLrs?: readonly number[] | undefined;
}

/**
 * Returns the rate of the step after `t` steps. The rate is a multiple of `base`, plus a number that does not depend on
 * `base`.
 */
export type Rate = (t: number, base: number) => number;

/**
 * Sets the rates of an optimizer's groups before each step. The constructor sets the rates of the first step; `step()` must
 * be called after each step of the optimizer. If a rate was set by hand since the last step, the later rates are scaled so that
 * they continue from the set rate, as in torch's schedules that multiply the last rate. Torch's LambdaLR multiplies the first
 * rate, so with LambdaLR a rate that is set by hand holds for one step.
 */
export class LRSchedule {
  readonly #groups: readonly { lr: number }[];
  readonly #rate: Rate;
  readonly #keepsBases: boolean;
  #bases: number[];
  #set: number[] = [];
  #steps = 0;

  /** `keepsBases`: whether a rate that was set by hand holds for one step only. */
  constructor(optimizer: Scheduled, rate: Rate, keepsBases = false) {
    this.#keepsBases = keepsBases;
    this.#groups = optimizer.paramGroups ?? [optimizer];
    this.#rate = rate;
    this.#bases = this.#groups.map(({ lr }) => lr);
    this.#apply();
  }

  /** The first group's rate of the next step. */
  get lr(): number {
    return this.lrAt(this.#steps + 1);
  }

  /** The first group's rate of step n, from 1. */
  lrAt(n: number): number {
    return this.lrsAt(n)[0] ?? 0;
  }

  /** The rates of step n, from 1, by group. */
  lrsAt(n: number): number[] {
    return this.#bases.map((base) => this.#rate(n - 1, base));
  }

  /** Returns the rates of the next step, by group. Source: torch's LRScheduler.get_last_lr. */
  getLastLr(): number[] {
    return this.#groups.map(({ lr }) => lr);
  }

  /** Sets the rates of the next step; must be called after each step of the optimizer. */
  step(): void {
    this.#takeRates();
    this.#steps++;
    this.#apply();
  }

  state(): ScheduleState {
    this.#takeRates();
    const [baseLr = 0] = this.#bases;
    // For a rate that was set by hand, the schedule may give a slightly different rate (rounding), so such rates are stored too.
    const isByHand = this.#set.some((lr, i) => lr !== this.#rate(this.#steps, this.#bases[i] ?? 0));
    return {
      steps: this.#steps,
      baseLr,
      ...(this.#bases.length > 1 ? { baseLrs: [...this.#bases] } : {}),
      ...(isByHand ? { setLrs: [...this.#set] } : {}),
    };
  }

  /** Continues from a state; if the state is null, sets the schedule's own rates again. */
  restore(state: ScheduleState | null): void {
    if (state === null) {
      this.#apply();
      return;
    }
    const { steps, baseLr, baseLrs = [baseLr], setLrs } = state;
    requireGroups(this.#bases.length, baseLrs.length);
    this.#steps = steps;
    this.#bases = [...baseLrs];
    this.#apply(setLrs);
  }

  /** Changes the base of each group whose rate was set by hand, so that the schedule gives the set rate for this step. */
  #takeRates(): void {
    for (const [i, { lr }] of this.#groups.entries()) {
      if (lr === this.#set[i]) continue;
      const least = this.#rate(this.#steps, 0);
      const factor = this.#rate(this.#steps, 1) - least;
      // If the schedule's rate does not depend on the base, the rate that was set holds for one step.
      if (!this.#keepsBases && Math.abs(factor) > 1e-12) this.#bases[i] = (lr - least) / factor;
      this.#set[i] = lr;
    }
  }

  #apply(rates: readonly number[] = this.#bases.map((base) => this.#rate(this.#steps, base))): void {
    this.#set = [...rates];
    for (const [i, group] of this.#groups.entries()) group.lr = this.#set[i] ?? group.lr;
  }
}

/**
 * Takes the progress of the decay, from 0 (full rate) to 1 (last rate); returns the remaining share of the difference of these
 * rates.
 */
const DECAYS: Readonly<Record<ScheduleConfig['decayType'], (x: number) => number>> = {
  cosine: (x) => 0.5 * (1 + Math.cos(Math.PI * x)),
  linear: (x) => 1 - x,
  '1-sqrt': (x) => 1 - Math.sqrt(x),
};

/**
 * Returns the rate of a config's schedule, for a run of `steps` steps. During warm-up, step n (from 1) has n / warmupSteps of
 * the base, as in torchtitan. Source, after warm-up: torch.optim.lr_scheduler's LinearLR to etaMin, CosineAnnealingLR (which
 * then stays at etaMin), StepLR and ExponentialLR; wsd: transformers' get_wsd_schedule; WarmupCosineLR: DeepSpeed's cosine, one
 * step ahead of the other schedules, so that step maxSteps has etaMin.
 */
export function rateOf(schedule: ScheduleConfig, steps: number): Rate {
  const { kind, warmupSteps, maxSteps = steps, etaMin, decayType, stepSize, gamma } = schedule;
  const decaySteps = decayStepsOf(schedule, steps);
  const fall =
    (decay: (x: number) => number, from: number, over: number): Rate =>
    (t, base) =>
      etaMin + (base - etaMin) * decay(Math.min(1, Math.max(0, (t - from) / over)));
  const span = maxSteps - warmupSteps;
  const after: Readonly<Record<ScheduleConfig['kind'], Rate>> = {
    constant: (_, base) => base,
    linear: fall(DECAYS.linear, warmupSteps, span),
    cosine: fall(DECAYS.cosine, warmupSteps, span),
    WarmupCosineLR: fall(DECAYS.cosine, warmupSteps - 1, span),
    wsd: fall(DECAYS[decayType], maxSteps - decaySteps, decaySteps),
    step: (t, base) => base * gamma ** Math.floor((t - warmupSteps) / stepSize),
    exponential: (t, base) => base * gamma ** (t - warmupSteps),
  };
  return (t, base) => (t < warmupSteps ? (base * (t + 1)) / warmupSteps : after[kind](t, base));
}

/** Makes a schedule that multiplies the rates by a function of the number of steps so far. */
function multiplied(optimizer: Scheduled, factor: (t: number) => number): LRSchedule {
  return new LRSchedule(optimizer, (t, base) => base * factor(t));
}

/**
 * The schedules of torch.optim.lr_scheduler, with its defaults. Each takes the optimizer and an object with torch's
 * arguments; LambdaLR takes a function of the number of steps so far, whose result multiplies the rate.
 * Throws: CONFIG for an unknown or missing argument.
 */
export const TORCH_SCHEDULES = {
  LambdaLR(optimizer: Scheduled, lrLambda: (step: number) => number): LRSchedule {
    if (typeof lrLambda === 'function')
      return new LRSchedule(optimizer, (t, base) => base * lrLambda(t), true);
    throw new ConfigError('LambdaLR takes a function of the step, such as (step) => 0.95 ** step');
  },
  StepLR(optimizer: Scheduled, options: { readonly stepSize: number; readonly gamma?: number }): LRSchedule {
    const { stepSize, gamma } = checked('StepLR', options, { stepSize: 0, gamma: 0.1 });
    if (!(stepSize >= 1)) throw new ConfigError(`StepLR: stepSize is ${stepSize}; give 1 or more`);
    return multiplied(optimizer, (t) => gamma ** Math.floor(t / stepSize));
  },
  MultiStepLR(
    optimizer: Scheduled,
    options: { readonly milestones: readonly number[]; readonly gamma?: number },
  ): LRSchedule {
    const none: readonly number[] = [];
    const { milestones, gamma } = checked('MultiStepLR', options, { milestones: none, gamma: 0.1 });
    return multiplied(optimizer, (t) => gamma ** milestones.filter((milestone) => milestone <= t).length);
  },
  ExponentialLR(optimizer: Scheduled, options: { readonly gamma: number }): LRSchedule {
    const { gamma } = checked('ExponentialLR', options, { gamma: 1 });
    return multiplied(optimizer, (t) => gamma ** t);
  },
  LinearLR(
    optimizer: Scheduled,
    options: {
      readonly startFactor?: number;
      readonly endFactor?: number;
      readonly totalIters?: number;
    } = {},
  ): LRSchedule {
    const usual = { startFactor: 1 / 3, endFactor: 1, totalIters: 5 };
    const { startFactor, endFactor, totalIters } = checked('LinearLR', options, usual);
    return multiplied(optimizer, (t) => {
      return startFactor + (endFactor - startFactor) * (t < totalIters ? t / totalIters : 1);
    });
  },
  ConstantLR(
    optimizer: Scheduled,
    options: { readonly factor?: number; readonly totalIters?: number } = {},
  ): LRSchedule {
    const { factor, totalIters } = checked('ConstantLR', options, { factor: 1 / 3, totalIters: 5 });
    return multiplied(optimizer, (t) => (t < totalIters ? factor : 1));
  },
  CosineAnnealingLR(
    optimizer: Scheduled,
    options: { readonly tMax: number; readonly etaMin?: number },
  ): LRSchedule {
    const { tMax, etaMin } = checked('CosineAnnealingLR', options, { tMax: 0, etaMin: 0 });
    if (!(tMax > 0)) throw new ConfigError(`CosineAnnealingLR: tMax is ${tMax}; give a number of steps`);
    return new LRSchedule(optimizer, (t, base) => etaMin + (base - etaMin) * DECAYS.cosine(t / tMax));
  },
} as const;

function checked<T extends object>(schedule: string, options: object, defaults: T): T {
  if (typeof options === 'object' && options !== null) return checkedOptions<T>(schedule, options, defaults);
  throw new ConfigError(
    `${schedule}: give the arguments in an object: { ${Object.keys(defaults).join(', ')} }`,
  );
}
