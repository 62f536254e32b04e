import type { Warn } from '../../core/warn';
import { unsyncedBatchNorm } from '../../nn/layers/batch-norm';
import type { Module } from '../../nn/module';

/** Where the warning has been shown. */
const TOLD = new WeakSet<Warn>();

/** Warns once that a model's batch norms do not see the batches of other ranks. Torch has no warning. */
export function warnOfBatchNorm(model: Module, numRanks: number, warn: Warn): void {
  if (numRanks === 1 || TOLD.has(warn)) return;
  const norm = unsyncedBatchNorm(model);
  if (norm === undefined) return;
  TOLD.add(warn);
  warn(
    `BatchNorm at "${norm.path}" uses the statistics of each rank's own batch, as in torch; for those of all ranks, call ` +
      'nn.SyncBatchNorm.convertSyncBatchnorm(model) first. This warning appears once',
  );
}
