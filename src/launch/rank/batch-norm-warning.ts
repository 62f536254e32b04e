import type { Warn } from '../../core';
import { type Module, unsyncedBatchNorm } from '../../nn';

/** Warns once per rank, in a cell or a run, that batch norms do not see the batches of other ranks. Torch does not warn. */
export class BatchNormWarning {
  readonly #warn: Warn;
  #hasSpoken = false;

  constructor(warn: Warn) {
    this.#warn = warn;
  }

  /** Checks a model that `numRanks` ranks train. */
  check(model: Module, numRanks: number): void {
    if (numRanks === 1 || this.#hasSpoken) return;
    const norm = unsyncedBatchNorm(model);
    if (norm === undefined) return;
    this.#hasSpoken = true;
    this.#warn(
      `BatchNorm at "${norm.path}" uses the statistics of each rank's own batch, as in torch; for the statistics of all ranks, call ` +
        'nn.SyncBatchNorm.convertSyncBatchnorm(model) first. This warning appears once',
    );
  }
}
