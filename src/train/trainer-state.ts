import type { GradScalerState } from '../optim/grad-scaler';
import type { ScheduleState } from '../optim/warmup-cosine-lr';

/**
 * What of a training is neither a parameter nor a state of the optimizer; plain JSON, the same on every rank. No random
 * numbers are among it: batches and the noise of gates follow from the seed and these counts.
 */
export interface TrainerState {
  /** Steps taken. */
  readonly steps: number;
  /** Micro-batches taken by each rank: which come next. */
  readonly microBatches: number;
  /** Steps of the optimizer; fewer where updates were left out. */
  readonly optimizerSteps: number;
  /** By parameter's name, in how many of them it had no gradient. Left out: none had none. */
  readonly stepsLeftOut?: Readonly<Record<string, number>> | undefined;
  /** The learning rate of the next step. */
  readonly lr: number;
  /** null: the learning rate stays. */
  readonly schedule: ScheduleState | null;
  /** null: the loss is not scaled. */
  readonly scaler: GradScalerState | null;
}
