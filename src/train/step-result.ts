import type { Seconds } from '../core/units';
import type { ExpertLoads } from '../parallel/experts/balance-experts';

/** The main thread's time in each part of a step. */
export interface StepSpans {
  readonly data: Seconds;
  readonly forward: Seconds;
  readonly backward: Seconds;
  readonly loss: Seconds;
  readonly optimizer: Seconds;
}

/** The result of one training step; plain JSON. */
export interface StepResult {
  /** The step's number, from 1. */
  readonly step: number;
  /** Mean over all tokens of all ranks and microbatches; may be NaN or infinity. */
  readonly loss: number;
  /** Norm of all gradients, before clipping. */
  readonly gradNorm: number;
  /** The learning rate that the update used. */
  readonly lr: number;
  /** Whether a GradScaler skipped the update because a gradient overflowed. */
  readonly skipped: boolean;
  /** Number of tokens (for a dit: patches) of all ranks; of rows, such as images, with `countedRows`. */
  readonly tokens: number;
  /** Default false. */
  readonly countedRows?: boolean;
  /** The rows of each expert of each layer with experts: of this rank's batches, and in a run's results of all ranks'. Omitted without experts. */
  readonly experts?: ExpertLoads;
  readonly seconds: Seconds;
  readonly spans: StepSpans;
}
