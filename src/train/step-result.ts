import type { Seconds } from '../core/units';
import type { ExpertLoad } from '../nn/moe/mixture-of-experts';
import type { ExpertLoads } from '../parallel/experts/balance-experts';

/** The main thread's time in each part of a step. */
export interface StepSpans {
  readonly data: Seconds;
  readonly forward: Seconds;
  readonly backward: Seconds;
  readonly loss: Seconds;
  readonly optimizer: Seconds;
}

/** Rows that a rank computed, of all ranks' batches. */
export interface RankRows {
  readonly rank: number;
  readonly rows: number;
}

/** The result of one training step; plain JSON. */
export interface StepResult {
  /** The step's number, from 1. */
  readonly step: number;
  /** Mean over all tokens of all ranks and microbatches; may be NaN or infinity. */
  readonly loss: number;
  /** Norm of all gradients, before clipping. */
  readonly gradNorm: number;
  /** The learning rate that the update used. */
  readonly lr: number;
  /** Whether a GradScaler skipped the update because a gradient overflowed. */
  readonly skipped: boolean;
  /** Number of tokens (for a dit: patches) of all ranks; with `countedRows`, the number of rows, such as images. */
  readonly tokens: number;
  /** Default false. */
  readonly countedRows?: boolean;
  /**
   * The number of rows per expert of each layer with experts: of this rank's batches; in a run's results, of all ranks' batches.
   * Omitted without experts.
   */
  readonly experts?: Readonly<Record<string, ExpertLoad>>;
  /** The rows that the experts of each rank computed, by layer; ranks without the layer are left out. Omitted without experts. */
  readonly rankRows?: Readonly<Record<string, readonly RankRows[]>>;
  readonly seconds: Seconds;
  readonly spans: StepSpans;
}

/** Returns the loads of a rank as a step's result has them; nothing without experts. */
export function loadsOf(loads: ExpertLoads, rank: number): Pick<StepResult, 'experts' | 'rankRows'> {
  const entries = Object.entries(loads);
  if (entries.length === 0) return {};
  const ran = entries.filter(([, { tokens, computed }]) => computed > 0 || tokens.some((rows) => rows > 0));
  return {
    experts: Object.fromEntries(entries.map(([layer, { tokens, dropped }]) => [layer, { tokens, dropped }])),
    rankRows: Object.fromEntries(ran.map(([layer, { computed: rows }]) => [layer, [{ rank, rows }]])),
  };
}
