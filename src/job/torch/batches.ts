import type { TrainConfig } from '../../config/train-config';
import { ConfigError } from '../../core/errors';
import type { BatchSource, TokenBatch, ValidationBatches } from '../../data/batch';
import { createBatches } from '../../data/batches';
import type { PreparedData } from '../../data/prepared';
import { LRSchedule, rateOf, type ScheduleState } from '../../optim/lr-schedule';
import { type DataMark, dataMark } from '../../train/trainer-state';
import type { BatchesMade, BatchesNeeded } from '../control/torch-messages';

/**
 * [Note: batches for Python ranks] Ranks of PyTorch ask the launcher for their microbatches, so data, seeds and epochs have one
 * implementation, and a run on PyTorch sees the same tokens in the same order as a run of this library. They also get the learning
 * rate of each step, for the same reason. Ranks ask ahead, so they do not wait.
 */
export class TorchBatches {
  readonly #config: TrainConfig;
  readonly #source: BatchSource;
  readonly #prepared: PreparedData | undefined;
  readonly #base: { lr: number };
  readonly #schedule: LRSchedule | null;

  /** `world` is the number of ranks of the run. Throws: CONFIG for data that do not fit to the model. */
  constructor(config: TrainConfig, world: number, prepared: PreparedData | undefined) {
    const { tp, pp, cp } = config.parallel;
    this.#config = config;
    this.#prepared = prepared;
    this.#source = createBatches(config, { world: world / (tp * pp * cp), prepared });
    this.#base = { lr: config.optimizer.lr };
    const { schedule, steps } = config;
    this.#schedule = schedule && new LRSchedule(this.#base, rateOf(schedule, steps));
  }

  /** What a checkpoint stores of the data and of the schedule, after `steps` steps. */
  stateAfter(steps: number): { readonly data: DataMark; readonly schedule: ScheduleState | null } {
    const data = dataMark({ config: this.#config, data: this.#prepared });
    if (this.#schedule === null) return { data, schedule: null };
    this.#schedule.restore({ ...this.#schedule.state(), steps });
    return { data, schedule: this.#schedule.state() };
  }

  /** Continues from a checkpoint's state. */
  restore(lr: number, schedule: ScheduleState | null): void {
    if (this.#schedule === null) this.#base.lr = lr;
    else this.#schedule.restore(schedule);
  }

  /** Sets the rate of the step after `steps` steps; a schedule continues from it. */
  setRate(lr: number, steps: number): void {
    this.#schedule?.restore({ ...this.#schedule.state(), steps });
    this.#base.lr = lr;
    this.#schedule?.state();
  }

  /** Answers a rank's question. Throws: CONFIG for validation rows that the data does not have, and errors of the data. */
  make({ run, what, rank, first, count }: BatchesNeeded): BatchesMade {
    if (what === 'validation') return this.#validation({ run, rank, first, count });
    const indices = Array.from({ length: count }, (_, i) => first + i);
    const tokens = joined(indices.map((index) => this.#source.batch(rank, index)));
    const { accumulation } = this.#config;
    const steps = indices.filter((index) => index % accumulation === 0).map((index) => index / accumulation);
    return { run, first, tokens, lrs: steps.map((step) => [this.#rateOf(step)]) };
  }

  #rateOf(step: number): number {
    return this.#schedule === null ? this.#base.lr : this.#schedule.lrAt(step + 1);
  }

  #validation({ run, rank, first, count }: Omit<BatchesNeeded, 'what'>): BatchesMade {
    const validation: ValidationBatches<TokenBatch> | null | undefined = this.#source.validation;
    if (validation == null) {
      throw new ConfigError(
        'evaluate needs rows that are never trained on, and this run has none; give them in the config, as data: { path: ' +
          "'./text.txt', validation: 0.1 }",
      );
    }
    const end = Math.min(first + count, validation.numBatches);
    const made = Array.from({ length: Math.max(0, end - first) }, (_, i) =>
      validation.batch(rank, first + i),
    );
    return {
      run,
      first,
      tokens: joined(made.map(({ batch }) => batch)),
      lrs: [],
      counts: made.map(({ counted }) => counted),
      last: end === validation.numBatches,
    };
  }
}

/** Returns microbatches as one array; those with fewer rows are padded with zeros, and `counts` says how many rows count. */
function joined(batches: readonly TokenBatch[]): BatchesMade['tokens'] {
  const [{ seq } = { seq: 0 }] = batches;
  const rows = Math.max(0, ...batches.map(({ batch }) => batch));
  const size = rows * (seq + 1);
  const values = new Int32Array(batches.length * size);
  for (const [i, { tokens }] of batches.entries()) values.set(tokens, i * size);
  return { shape: [batches.length, rows, seq + 1], values };
}
