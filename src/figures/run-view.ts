import { ConfigError, shown } from '../core';
import type { StepRecord } from '../ledger';
import type { RunForecast } from '../planner';

/** The part of a run that figures use. */
export interface RunView {
  /** The strategy's name, as in the config. */
  readonly strategy: string;
  /** The run's name in titles. Default: the strategy. */
  readonly name?: string;
  readonly world: number;
  /**
   * Step records of all ranks, in any order. A long run has only the records of the newest steps and of the step that a caller
   * chose.
   */
  readonly records: readonly StepRecord[];
  /** Returns the losses of all steps; present if `records` may have only some steps. */
  readonly allLosses?: () => LossesByStep;
  /** Runs a dry run and returns the predicted numbers; null if nothing can be predicted. */
  readonly forecast?: () => RunForecast | null;
  /** Whether the user's code computes the losses, so that the losses may be of any kind. */
  readonly hasOwnLoss?: boolean;
  /** The name of the code that ran, such as 'cell 7', if it ran only a part of a step. */
  readonly part?: string;
  /** Words for subtitles that describe the machine: "which share 2 cores", "link 2.5 Gbit/s". */
  readonly note?: string;
  /** The number of consecutive ranks per node; omitted if the job has no nodes. */
  readonly ranksPerNode?: number;
}

/** Returns the run's name in titles of figures. */
export function nameOf({ name, strategy }: RunView): string {
  return name ?? strategy;
}

/** Losses of consecutive steps; NaN if a step is missing. */
export interface LossesByStep {
  readonly firstStep: number;
  readonly losses: readonly number[];
}

/** Returns a run's losses, step by step. */
export function lossesOf(run: RunView): LossesByStep {
  if (run.allLosses !== undefined) return run.allLosses();
  const bySteps = new Map<number, number>();
  for (const { step, loss } of run.records) if (loss !== null && !bySteps.has(step)) bySteps.set(step, loss);
  if (bySteps.size === 0) return { firstStep: 1, losses: [] };
  const firstStep = Math.min(...bySteps.keys());
  const length = Math.max(...bySteps.keys()) - firstStep + 1;
  return { firstStep, losses: Array.from({ length }, (_, i) => bySteps.get(firstStep + i) ?? Number.NaN) };
}

/**
 * Returns the records of one step (default: the last complete step), sorted by rank.
 * Throws: CONFIG if the step has no record.
 */
export function recordsOfStep(records: readonly StepRecord[], step?: number): [StepRecord, ...StepRecord[]] {
  const chosen = step ?? lastCompleteStep(records);
  const [first, ...rest] = records.filter((record) => record.step === chosen).sort((a, b) => a.rank - b.rank);
  if (first !== undefined) return [first, ...rest];
  const steps = records.map((record) => record.step);
  if (steps.length === 0) throw new ConfigError('there is no recorded step yet; run a step first');
  throw notRecorded(step, Math.min(...steps), Math.max(...steps));
}

/**
 * Makes the error for a step without records; the error names the recorded steps. `newest` lists the newest steps that have
 * records.
 */
export function notRecorded(
  step: number | undefined,
  first: number,
  last: number,
  newest: readonly number[] = [],
): ConfigError {
  if (typeof step === 'number' && step >= first && step <= last) {
    return new ConfigError(
      `step ${step} has no record: ranks of PyTorch record the last step of each run.step; recorded: ${newest.join(', ') || 'none'}`,
    );
  }
  return new ConfigError(`step ${shown(step)} is not recorded; choose one of ${first} to ${last}`);
}

/** Returns the record with the higher peak; of records with equal peaks, the first. This function is an argument of `reduce`. */
export function higherPeak(best: StepRecord, record: StepRecord): StepRecord {
  return record.memory.peakBytes > best.memory.peakBytes ? record : best;
}

/** Returns the last step that has a record of each of its ranks. Steps after a reshard may have more or fewer ranks. */
function lastCompleteStep(records: readonly StepRecord[]): number {
  const missing = new Map<number, number>();
  for (const { step, world } of records) missing.set(step, (missing.get(step) ?? world) - 1);
  const complete = [...missing].filter(([, count]) => count <= 0).map(([step]) => step);
  return Math.max(...(complete.length === 0 ? missing.keys() : complete));
}
