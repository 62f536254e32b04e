import { ConfigError } from '../../core';
import type { EpochBatches, ValidationBatches } from './batch';
import { createSampler } from './sampler';

/** Options that say how rows become batches. */
export interface BatchingOptions {
  /** Rows per rank and microbatch. */
  readonly batch: number;
  /** Number of data-parallel ranks. */
  readonly world: number;
  readonly seed: number;
}

/** Rows that are read by their indices. */
export interface Rows<Batch> {
  readonly name: string;
  readonly numRows: number;
  readonly shuffle: boolean;
  readonly dropLast: boolean;
  read(rows: readonly number[]): Batch;
  /** The rows for validation; null if there are none. */
  readonly validation: { readonly numRows: number; read(rows: readonly number[]): Batch } | null;
}

/** Batches of rows; each row has an index. */
export interface RowBatches<Batch> extends EpochBatches<Batch> {
  readonly validation: ValidationBatches<Batch> | null;
  /** Returns the indices of a batch's rows. */
  rows(rank: number, index: number): number[];
}

/**
 * Makes batches of rows by the rule of DistributedSampler. A batch at the end of an epoch continues with rows of the next
 * epoch, so all batches have the same number of rows; without dropLast, no row is left out. The number of microbatches so far is
 * the position in the data. Throws: CONFIG if dropLast leaves no rows.
 */
export function createRowBatches<Batch>(rows: Rows<Batch>, options: BatchingOptions): RowBatches<Batch> {
  const { name, numRows, shuffle, dropLast, validation } = rows;
  const { batch, world, seed } = options;
  const sampler = createSampler({ length: numRows, world, shuffle, seed, dropLast });
  if (sampler.rowsPerRank === 0) {
    throw new ConfigError(
      `data: dropLast leaves out all rows of ${name}, because there are fewer rows (${numRows}) than ranks (${world}); give more data, or leave dropLast out`,
    );
  }
  const numbers = (rank: number, index: number): number[] =>
    Array.from({ length: batch }, (_, i) => sampler.rowAt(rank, index * batch + i));
  return {
    name,
    numBatches: Math.ceil(sampler.rowsPerRank / batch),
    rows: numbers,
    batch: (rank, index) => rows.read(numbers(rank, index)),
    validation: validation && validationBatches(validation, options),
  };
}

function validationBatches<Batch>(
  { numRows, read }: NonNullable<Rows<Batch>['validation']>,
  { batch, world }: BatchingOptions,
): ValidationBatches<Batch> {
  return {
    numRows,
    numBatches: Math.ceil(Math.ceil(numRows / world) / batch),
    batch(rank, index) {
      const places = Array.from({ length: batch }, (_, i) => rank + world * (index * batch + i));
      const rows = places.filter((row) => row < numRows);
      return { batch: read(rows.length === 0 ? [0] : rows), counted: rows.length };
    },
  };
}
