import { ConfigError } from '../core/errors';
import type { Optimizer } from './optimizer';
import { checkedOptions } from './optimizer-options';

/** The options of a schedule; steps are the optimizer's. */
export interface WarmupCosineOptions {
  /** The number of steps in which the rate rises; the last of them has the optimizer's rate. Default 0. */
  readonly warmupSteps?: number;
  /** The first step at which the rate is etaMin. */
  readonly maxSteps: number;
  readonly etaMin?: number;
}

/** The state that a checkpoint stores; plain JSON. */
export interface ScheduleState {
  /** The number of steps so far. */
  readonly steps: number;
  readonly baseLr: number;
}

/**
 * Sets an optimizer's learning rate for each step n (from 1): n / warmupSteps of the optimizer's rate during warm-up, then
 * half a cosine down to etaMin. The constructor sets the rate of step 1; call `step()` after each step of the optimizer.
 * Source: the cosine is DeepSpeed's WarmupCosineLR; the warm-up is torchtitan's, because DeepSpeed's linear warm-up starts
 * with a rate of 0, which wastes the first step.
 */
export class WarmupCosineLR {
  readonly #optimizer: Pick<Optimizer, 'lr'>;
  readonly #options: Required<WarmupCosineOptions>;
  #baseLr: number;
  #steps = 0;

  /** Throws: CONFIG if maxSteps is missing or not above warmupSteps. */
  constructor(optimizer: Pick<Optimizer, 'lr'>, options: WarmupCosineOptions) {
    const defaults = { warmupSteps: 0, maxSteps: 0, etaMin: 0 };
    this.#options = checkedOptions<Required<WarmupCosineOptions>>('WarmupCosineLR', options, defaults);
    const { warmupSteps, maxSteps } = this.#options;
    if (maxSteps < 1 || maxSteps <= warmupSteps) {
      throw new ConfigError(
        `WarmupCosineLR: maxSteps ${maxSteps} with warmupSteps ${warmupSteps}; give maxSteps of 1 or more, and above warmupSteps, because the cosine uses the remaining steps.`,
      );
    }
    this.#optimizer = optimizer;
    this.#baseLr = optimizer.lr;
    this.#apply();
  }

  /** The rate of the next step. */
  get lr(): number {
    return this.lrAt(this.#steps + 1);
  }

  /** The rate of step n, from 1. */
  lrAt(n: number): number {
    const { warmupSteps, maxSteps, etaMin } = this.#options;
    if (n <= warmupSteps) return (this.#baseLr * n) / warmupSteps;
    if (n >= maxSteps) return etaMin;
    const progress = (n - warmupSteps) / (maxSteps - warmupSteps);
    return etaMin + (this.#baseLr - etaMin) * 0.5 * (1 + Math.cos(Math.PI * progress));
  }

  /** Sets the rate of the next step; must be called after each step of the optimizer. */
  step(): void {
    this.#steps++;
    this.#apply();
  }

  state(): ScheduleState {
    return { steps: this.#steps, baseLr: this.#baseLr };
  }

  restore({ steps, baseLr }: ScheduleState): void {
    this.#steps = steps;
    this.#baseLr = baseLr;
    this.#apply();
  }

  #apply(): void {
    this.#optimizer.lr = this.lr;
  }
}
