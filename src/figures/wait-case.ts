import { mean, sumOf } from '../core';
import { byWaitKind, type StepRecord, timeline, waitSecondsOf, waitsOf } from '../ledger';
import { type RunView, recordsOfStep } from './run-view';
import { type Spread, scaled } from './spread';
import { fromMedians, lastSteps, stepTimes, typicalStep } from './step-times';

/** Times are per this number of tokens if the runs' steps have different numbers of tokens. */
export const WORK_TOKENS = 1000;

/** The step and rank of a run that are drawn, and the times and waits of all the run's ranks over the last steps. */
export type TimelineCase = ReturnType<typeof timelineCaseOf>;

/** Returns the numbers of a run that a comparison of waits needs. */
export function timelineCaseOf(name: string, run: RunView) {
  const times = stepTimes(run);
  const typical = recordsOfStep(run.records, typicalStep(run)[0]?.step);
  const waits = waitsOf(typical);
  // The labels show medians, so the drawn rank is the one nearest to these medians.
  const distance = (record: StepRecord): number =>
    fromMedians([record], waitSecondsOf(waits.get(record.rank) ?? []), times);
  const drawn = typical.reduce((best, one) => (distance(one) < distance(best) ? one : best));
  const collectives = lastSteps(run).flatMap((records) => records.map((record) => record.collectives));
  return {
    name,
    lanes: timeline(drawn, drawn.start, waits.get(drawn.rank)),
    step: drawn.step,
    /** The times are per step, or per 1,000 tokens if the runs' steps have different numbers of tokens. */
    times,
    /** The received bytes, as a mean over ranks and steps. */
    wireBytes: mean(collectives.map((events) => sumOf(events, ({ wireBytes }) => wireBytes))),
    numCollectives: mean(collectives.map(({ length }) => length)),
  };
}

/** Converts the times of a step to times per 1,000 tokens. */
export function perWork(one: TimelineCase): TimelineCase {
  const { tokens, step, wait, waits } = one.times;
  const scale = (spread: Spread): Spread => scaled(spread, WORK_TOKENS / (tokens ?? WORK_TOKENS));
  const all = byWaitKind((kind) => scale(waits[kind]));
  return { ...one, times: { ...one.times, step: scale(step), wait: scale(wait), waits: all } };
}
