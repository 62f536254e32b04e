import { DEFAULT_GRAD_SCALER, type GradScalerConfig } from '../../config';
import { ConfigError } from '../../core';
import type { Engine } from '../../engine';
import { type StateBuffer, scaleElements, sumOfSquares } from '../../nn';
import type { ProcessGroup } from '../../wire';
import { reduceNumber } from './clip-grad-norm';

/** The settings of a GradScaler, with torch's defaults. */
export interface GradScalerOptions extends Partial<GradScalerConfig> {
  /** Whether the loss is scaled and gradients are checked. If false, the scale is always 1. Default true. */
  readonly enabled?: boolean;
}

/** The state that changes during training and that checkpoints store. Source: GradScaler.state_dict. */
export interface GradScalerState {
  readonly scale: number;
  /** The number of steps without overflow since the last change of the scale. */
  readonly growthTracker: number;
}

/**
 * Prevents small gradients from becoming 0 in float16: the loss is multiplied by `scale`, and gradients are divided by
 * `scale` before they are used. If a gradient overflows on any rank, no rank updates, and the scale shrinks; after
 * growthInterval steps without overflow, the scale grows. Multiplication and division by a power of two are exact.
 * Source: torch.amp.GradScaler; Micikevicius et al. 2018.
 */
export class GradScaler {
  readonly #engine: Engine;
  readonly #group: ProcessGroup;
  readonly #config: GradScalerConfig;
  readonly #enabled: boolean;
  #scale: number;
  #growthTracker = 0;
  /** Whether a gradient of this step overflowed; null until gradients are unscaled. */
  #foundInf: boolean | null = null;
  #numSkipped = 0;

  constructor(engine: Engine, group: ProcessGroup, options: GradScalerOptions = {}) {
    const { enabled = true, ...config } = options;
    this.#engine = engine;
    this.#group = group;
    this.#config = { ...DEFAULT_GRAD_SCALER, ...config };
    this.#enabled = enabled;
    this.#scale = enabled ? this.#config.initScale : 1;
  }

  /** The factor by which the loss is multiplied; pass this factor to `backward` as the seed. */
  get scale(): number {
    return this.#scale;
  }

  /** The number of skipped steps. */
  get numSkipped(): number {
    return this.#numSkipped;
  }

  get state(): GradScalerState {
    return { scale: this.#scale, growthTracker: this.#growthTracker };
  }

  /** Restores the state of a checkpoint. */
  restore({ scale, growthTracker }: GradScalerState): void {
    this.#scale = this.#enabled ? scale : 1;
    this.#growthTracker = growthTracker;
    this.#foundInf = null;
  }

  /**
   * Divides the gradients by the scale, in place. Returns true if a gradient on any rank is infinite or NaN; the step must then
   * be skipped. All ranks must call this method, because it reduces one number over ranks. Throws: CONFIG for a second call in
   * the same step.
   */
  unscaleAndCheck(states: Iterable<StateBuffer>): boolean {
    if (this.#foundInf !== null) {
      throw new ConfigError(
        'gradients are already unscaled in this step; call update() at the end of the step before you unscale again',
      );
    }
    this.#foundInf =
      this.#enabled && reduceNumber(this.#engine, this.#group, Number(this.#unscale(states)), 'max') !== 0;
    return this.#foundInf;
  }

  /**
   * Runs the optimizer's step unless a gradient overflowed; returns whether it ran. Throws: CONFIG if `unscaleAndCheck` was not
   * called before.
   */
  step(optimizer: { step(gradScale?: number): void }, gradScale?: number): boolean {
    if (this.#foundInf === null) {
      throw new ConfigError('gradients are still scaled; call unscaleAndCheck(model.states()) before step()');
    }
    if (this.#foundInf) return false;
    optimizer.step(gradScale);
    return true;
  }

  /** Ends the step: the scale shrinks after an overflow, and grows after growthInterval steps without overflow. */
  update(): void {
    const foundInf = this.#foundInf ?? false;
    this.#foundInf = null;
    if (!this.#enabled) return;
    if (foundInf) {
      this.#numSkipped++;
      this.#scale *= this.#config.backoffFactor;
      this.#growthTracker = 0;
      return;
    }
    this.#growthTracker++;
    if (this.#growthTracker < this.#config.growthInterval) return;
    this.#growthTracker = 0;
    // Source: torch, in which the scale does not grow beyond the largest float32.
    const grown = this.#scale * this.#config.growthFactor;
    if (Math.fround(grown) < Number.POSITIVE_INFINITY) this.#scale = grown;
  }

  /** Divides the gradients by the scale; returns whether a gradient of this rank is not finite. */
  #unscale(states: Iterable<StateBuffer>): boolean {
    let areFinite = true;
    for (const state of states) {
      for (const { grad, length } of state.segments()) {
        if (grad === null) continue;
        areFinite &&= Number.isFinite(sumOfSquares(this.#engine, grad, length));
        scaleElements(this.#engine, grad, 1 / this.#scale, length);
      }
    }
    return !areFinite;
  }
}
