import type { TrainConfig } from '../config/train-config';
import { ConfigError } from '../core/errors';
import type { StepRecord } from '../ledger/record';
import type { ZeroPrediction } from '../plan/zero-formulas';
import { predictRun } from '../plan/zero-units';

/** What a figure must know of a run beside its records. */
export interface RunView {
  /** The strategy's real name, as in the config. */
  readonly strategy: string;
  readonly world: number;
  /** Steps of all ranks, in any order. */
  readonly records: readonly StepRecord[];
  /** For "predicted beside measured". */
  readonly prediction?: ZeroPrediction;
  /** Words about the machine for subtitles: "4 ranks share 2 cores", "link 2.5 Gbit/s". */
  readonly note?: string;
}

/** A run as figures see it, with what ZeRO's formulas predict for it. */
export function viewOf(run: {
  readonly config: TrainConfig;
  readonly world: number;
  readonly records: readonly StepRecord[];
  readonly note?: string;
}): RunView {
  const { config, world, records, note } = run;
  const view = { strategy: config.parallel.strategy, world, records, prediction: predictRun(config, world) };
  return note === undefined ? view : { ...view, note };
}

/** A run's losses by step; a step that is missing is NaN. */
export function lossesOf(run: RunView): { firstStep: number; losses: number[] } {
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
  throw new ConfigError(
    steps.length === 0
      ? 'there is no recorded step yet; run a step first'
      : `step ${step} is not recorded; choose one of ${Math.min(...steps)} to ${Math.max(...steps)}`,
  );
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
