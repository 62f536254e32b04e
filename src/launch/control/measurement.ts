import type { Bytes } from '../../core';
import type { ProfileOptions } from '../../training';

/** A measurement that all ranks of a job make together. */
export type Measurement =
  /**
   * Measures the times of collectives of the first `numRanks` ranks. These ranks return a BenchRow per operation and size;
   * other ranks return [].
   */
  | { readonly kind: 'collectives'; readonly numRanks: number; readonly sizes: readonly Bytes[] }
  /** Profiles steps of the first `numRanks` ranks, which train together or each alone at the same time; other ranks return []. */
  | {
      readonly kind: 'kernels';
      readonly numRanks: number;
      readonly isAlone: boolean;
      readonly profile: Omit<ProfileOptions, 'engine' | 'group'>;
    }
  /** Trains a config on the first `numRanks` ranks together; returns the processor time of each step, of all threads. */
  | {
      readonly kind: 'steps';
      readonly numRanks: number;
      readonly profile: Omit<ProfileOptions, 'engine' | 'group'>;
    }
  /** Returns the most memory that the process ever had resident, in KiB. */
  | { readonly kind: 'maxRss' };
