import type { ProcessGroup } from '../../dist/types';

/** Options of an attention over sequences of which each rank has a part. */
export interface DividedAttentionOptions {
  /** The ranks that have parts of the same sequences. */
  readonly group: ProcessGroup;
  /** Whether a position attends only to itself and earlier positions. */
  readonly causal: boolean;
  /** The factor of scores. Default 1/sqrt(D). */
  readonly scale?: number | undefined;
  /** The name in ledgers. Default: the module that runs. */
  readonly module?: string | undefined;
}

export const DIVIDED_ATTENTION_OPTIONS = ['group', 'causal', 'scale', 'module'] as const;
