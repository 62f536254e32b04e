import type { Seconds } from '../core/units';

/** Where a step's time went on the main thread. */
export interface StepSpans {
  readonly data: Seconds;
  readonly forward: Seconds;
  readonly backward: Seconds;
  readonly loss: Seconds;
  readonly optimizer: Seconds;
}

/** The result of one training step; plain JSON. */
export interface StepResult {
  /** From 1. */
  readonly step: number;
  /** Mean over all tokens of all ranks and microbatches; may be NaN or infinity. */
  readonly loss: number;
  /** Norm of all gradients, before clipping. */
  readonly gradNorm: number;
  /** The learning rate that the update used. */
  readonly lr: number;
  /** Whether a GradScaler skipped the update because a gradient overflowed. */
  readonly skipped: boolean;
  /** Tokens of all ranks. */
  readonly tokens: number;
  readonly seconds: Seconds;
  readonly spans: StepSpans;
}
