import type { Seconds } from '../core/units';

/** Where a step's time went on the main thread. */
export interface StepSpans {
  readonly data: Seconds;
  readonly forward: Seconds;
  readonly backward: Seconds;
  readonly loss: Seconds;
  readonly optimizer: Seconds;
}

/** What one training step came to; plain JSON. */
export interface StepResult {
  /** From 1. */
  readonly step: number;
  /** Mean over all tokens of all ranks and micro-batches; NaN and infinity as they are. */
  readonly loss: number;
  /** Norm of all gradients together, before clipping. */
  readonly gradNorm: number;
  /** The learning rate that the update used. */
  readonly lr: number;
  /** Whether the update was left out because a gradient overflowed (of a GradScaler). */
  readonly skipped: boolean;
  /** Tokens of all ranks. */
  readonly tokens: number;
  readonly seconds: Seconds;
  readonly spans: StepSpans;
}
