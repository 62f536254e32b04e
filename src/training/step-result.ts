import type { Seconds } from '../core';
import type { ExpertLoad } from '../nn';
import type { ExpertLoads } from '../sharding';
import type { Rewards } from './task';

/** The main thread's time in each part of a step. */
export interface StepSpans {
  readonly data: Seconds;
  readonly forward: Seconds;
  readonly backward: Seconds;
  readonly loss: Seconds;
  readonly optimizer: Seconds;
}

/** The number of rows that a rank's experts computed; the rows come from all ranks' batches. */
export interface RankRows {
  readonly rank: number;
  readonly rows: number;
}

/** The result of one training step; plain JSON. */
export interface StepResult {
  /** The step's number, from 1. */
  readonly step: number;
  /** The mean loss over all tokens of all ranks and microbatches; it may be NaN or infinity. */
  readonly loss: number;
  /** The L2 norm of all parameters' gradients together, before clipping. */
  readonly gradNorm: number;
  /** The learning rate that the update used. */
  readonly lr: number;
  /** Whether a GradScaler skipped the update because a gradient overflowed. */
  readonly skipped: boolean;
  /** Number of tokens (for a dit: patches) of all ranks; with `countedRows`, the number of rows, such as images. */
  readonly tokens: number;
  /** Whether `tokens` is a number of rows, because the batches have no tokens. Default false. */
  readonly countedRows?: boolean;
  /**
   * The number of rows per expert, by layer. A rank counts the rows of its own batches; a run's results count the rows of all
   * ranks' batches. Omitted for a model without experts.
   */
  readonly experts?: Readonly<Record<string, ExpertLoad>>;
  /** By layer, the number of rows that each rank's experts computed, for ranks with that layer. Omitted without experts. */
  readonly rankRows?: Readonly<Record<string, readonly RankRows[]>>;
  /** The mean rewards of the step's pairs. Omitted unless the training is DPO. */
  readonly rewards?: Rewards;
  readonly seconds: Seconds;
  readonly spans: StepSpans;
}

/** Returns the fields of a step's result for a rank's expert loads; an empty object without experts. */
export function loadsOf(loads: ExpertLoads, rank: number): Pick<StepResult, 'experts' | 'rankRows'> {
  const entries = Object.entries(loads);
  if (entries.length === 0) return {};
  const ran = entries.filter(([, { tokens, computed }]) => computed > 0 || tokens.some((rows) => rows > 0));
  return {
    experts: Object.fromEntries(entries.map(([layer, { tokens, dropped }]) => [layer, { tokens, dropped }])),
    rankRows: Object.fromEntries(ran.map(([layer, { computed: rows }]) => [layer, [{ rank, rows }]])),
  };
}
