import { ConfigError } from '../core/errors';
import type { StepRecord } from '../ledger/record';
import type { RunForecast } from '../plan/dry-run/forecast';

/** A run as figures see it. */
export interface RunView {
  /** The strategy's real name, as in the config. */
  readonly strategy: string;
  readonly world: number;
  /** Steps of all ranks, in any order: of a long run the newest ones, and the one that is asked for. */
  readonly records: readonly StepRecord[];
  /** The losses of all steps, made when a figure asks, if `records` has only some of them. */
  readonly allLosses?: () => LossesByStep;
  /** For "predicted beside measured", made when a figure asks; null if nothing can be predicted. */
  readonly forecast?: () => RunForecast | null;
  /** Words about the machine for subtitles: "which share 2 cores", "link 2.5 Gbit/s". */
  readonly note?: string;
}

/** Losses of one step after the other; those of steps that are missing are NaN. */
export interface LossesByStep {
  readonly firstStep: number;
  readonly losses: readonly number[];
}

/** A run's losses. */
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
 * Records of one step (the last complete one when none is named), by rank; at least one.
 * Throws: CONFIG when there is none.
 */
export function recordsOfStep(records: readonly StepRecord[], step?: number): [StepRecord, ...StepRecord[]] {
  const chosen = step ?? lastCompleteStep(records);
  const [first, ...rest] = records.filter((record) => record.step === chosen).sort((a, b) => a.rank - b.rank);
  if (first !== undefined) return [first, ...rest];
  const steps = records.map((record) => record.step);
  if (steps.length === 0) throw new ConfigError('there is no recorded step yet; run a step first');
  throw notRecorded(step, Math.min(...steps), Math.max(...steps));
}

/** For a step that a run did not make, with those that it made. */
export function notRecorded(step: number | undefined, first: number, last: number): ConfigError {
  return new ConfigError(`step ${step} is not recorded; choose one of ${first} to ${last}`);
}

/** For `reduce`: the record with the higher peak, the first of equal ones. */
export function higherPeak(best: StepRecord, record: StepRecord): StepRecord {
  return record.memory.peakBytes > best.memory.peakBytes ? record : best;
}

/** A step is complete when each of its ranks has recorded it; resharding changes how many these are. */
function lastCompleteStep(records: readonly StepRecord[]): number {
  const missing = new Map<number, number>();
  for (const { step, world } of records) missing.set(step, (missing.get(step) ?? world) - 1);
  const complete = [...missing].filter(([, count]) => count <= 0).map(([step]) => step);
  return Math.max(...(complete.length === 0 ? missing.keys() : complete));
}
