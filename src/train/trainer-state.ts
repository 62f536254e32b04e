import type { GradScalerState } from '../optim/grad-scaler';
import type { ScheduleState } from '../optim/lr-schedule';

/**
 * The state of a training besides parameters and optimizer states; plain JSON, the same on every rank. It contains no
 * random state, because batches and the noise of gates depend only on the seed and these counts.
 */
export interface TrainerState {
  /** Steps taken. */
  readonly steps: number;
  /** Number of microbatches that each rank has done; it determines the next batches. */
  readonly microBatches: number;
  /** Steps of the optimizer; fewer than `steps` if updates were skipped. */
  readonly optimizerSteps: number;
  /** By parameter's name, the number of steps in which it had no gradient. Omitted if there are none. */
  readonly stepsLeftOut?: Readonly<Record<string, number>> | undefined;
  /** The learning rate of the next step. */
  readonly lr: number;
  /** The rates of all groups of parameters. Omitted if there is one group. */
  readonly lrs?: readonly number[] | undefined;
  /** null: the learning rate is constant. */
  readonly schedule: ScheduleState | null;
  /** null: the loss is not scaled. */
  readonly scaler: GradScalerState | null;
}
