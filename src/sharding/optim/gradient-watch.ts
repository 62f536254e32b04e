import type { Seconds, Warn } from '../../core';
import type { Engine } from '../../engine';
import { floatsOf, type StateBuffer, type StateSegment, sumOfSquares } from '../../nn';
import { cutByKind } from './segment-cuts';

/**
 * The first 10 steps are all checked. A later step is checked only if checks so far took less than 0.8% of the time since the
 * first step.
 */
const FIRST_STEPS = 10;
const MOST_TIME = 0.008;

/**
 * Checks gradients in an optimizer's steps, and warns once about the first gradient that is NaN or infinite. The warning names
 * the parameter and the step, and says what to do. Weights and gradients remain NaN, so a later check finds a gradient that a
 * skipped check missed. As in PyTorch, this is not an error, and the update runs.
 */
export class GradientWatch {
  readonly #engine: Engine;
  readonly #warn: Warn;
  #isDone = false;
  #isLooking = false;
  #began: Seconds = 0;
  #spent: Seconds = 0;
  #lastLook = 0;

  constructor(engine: Engine, warn: Warn) {
    this.#engine = engine;
    this.#warn = warn;
    this.#isDone = !engine.hasValues;
  }

  /** Must be called when a step begins; steps count from 1. */
  begin(step: number): void {
    const now = this.#engine.clock.now();
    if (this.#isLooking) this.#lastLook = step - 1;
    if (this.#began === 0) this.#began = now;
    this.#isLooking = !this.#isDone && (step <= FIRST_STEPS || this.#spent < MOST_TIME * (now - this.#began));
  }

  /** Checks a buffer's gradients, if this step is checked. */
  look(buffer: StateBuffer, segments: readonly StateSegment[], step: number): void {
    if (!this.#isLooking || this.#isDone) return;
    const from = this.#engine.clock.now();
    const bad = segments.find((segment) => !this.#isFinite(segment));
    this.#spent += this.#engine.clock.now() - from;
    if (bad === undefined) return;
    this.#isDone = true;
    this.#name(buffer, bad, step);
  }

  #name(buffer: StateBuffer, bad: StateSegment, step: number): void {
    const since =
      step - this.#lastLook > 1 && step > FIRST_STEPS
        ? ` (or an earlier step, from ${this.#lastLook + 1} on)`
        : '';
    const parts = cutByKind(buffer, bad, (parameter) => parameter).filter(
      ({ part }) => !this.#isFinite(part),
    );
    const [first] = parts;
    if (first === undefined) return;
    const { numNaN, numInfinite } = this.#count(first.part);
    const others =
      parts.length === 1
        ? ''
        : `, and ${parts.length - 1} more gradients of the same unit have NaN or infinite values`;
    this.#warn(
      `step ${step}${since}: the gradient of ${first.kind.name} has ${numNaN} NaN and ${numInfinite} infinite values among its ` +
        `${first.part.length} elements on this rank${others}; the step is taken, as in PyTorch, and makes weights NaN. ` +
        `Look at the losses up to step ${step}. Lower lr; if gradients grow, call optim.clipGradNorm(model, 1) before step(); ` +
        'with float16, use a GradScaler, which skips such steps. This warning appears once',
    );
  }

  #isFinite({ grad, length }: StateSegment): boolean {
    return grad === null || length === 0 || Number.isFinite(sumOfSquares(this.#engine, grad, length));
  }

  #count({ grad, length }: StateSegment): { readonly numNaN: number; readonly numInfinite: number } {
    const values = grad === null ? [] : floatsOf(this.#engine, grad, length);
    let [numNaN, numInfinite] = [0, 0];
    for (const value of values) {
      if (Number.isNaN(value)) numNaN++;
      else if (!Number.isFinite(value)) numInfinite++;
    }
    return { numNaN, numInfinite };
  }
}
