import type { ProcessGroup } from '../../wire';

/** Options of attention over sequences that are divided over ranks. */
export interface DividedAttentionOptions {
  /** The ranks that have parts of the same sequences. */
  readonly group: ProcessGroup;
  /** Whether a position attends only to itself and earlier positions. */
  readonly causal: boolean;
  /** The factor by which scores are multiplied. Default 1/sqrt(D). */
  readonly scale?: number | undefined;
  /** The module name in ledgers. Default: the name of the module that runs. */
  readonly module?: string | undefined;
}

export const DIVIDED_ATTENTION_OPTIONS = ['group', 'causal', 'scale', 'module'] as const;
