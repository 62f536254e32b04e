import { ConfigError } from '../core/errors';
import type { Bytes } from '../core/units';
import type { StepRecord } from '../ledger/record';
import { type Timeline, timeline } from '../ledger/timeline';
import { waitSecondsOf, waitsOf } from '../ledger/waits';
import type { RunView } from './run-view';
import { mean } from './spread';
import { isEqualWork, lastSteps, type StepTimes, scaled, stepTimes, typicalStep } from './step-times';

/** One run: the step and rank that are drawn, and what all ranks took and waited over the last steps. */
export interface TimelineCase {
  readonly name: string;
  readonly lanes: Timeline;
  readonly step: number;
  /** Of a step; of 1,000 tokens where the runs' steps hold different numbers of them. */
  readonly times: StepTimes;
  /** Mean of a rank and step. */
  readonly wireBytes: Bytes;
  readonly numCollectives: number;
}

/** Tokens to which times refer where steps do not hold equally many. */
export const WORK_TOKENS = 1000;

/** The runs' cases; times of all of them are about the same work. Throws: CONFIG where a run has no step. */
export function timelineCases(runs: Readonly<Record<string, RunView>>): {
  readonly cases: readonly TimelineCase[];
  readonly perTokens: boolean;
} {
  const cases = Object.entries(runs).map(([name, run]) => caseOf(name, run));
  const perTokens = !isEqualWork(cases.map(({ times }) => times));
  return { cases: perTokens ? cases.map(perWork) : cases, perTokens };
}

function perWork(one: TimelineCase): TimelineCase {
  const factor = WORK_TOKENS / (one.times.tokens ?? WORK_TOKENS);
  const { step, wait, waits } = one.times;
  const { wire, peer, core, unknown } = waits;
  const times = {
    ...one.times,
    step: scaled(step, factor),
    wait: scaled(wait, factor),
    waits: {
      wire: scaled(wire, factor),
      peer: scaled(peer, factor),
      core: scaled(core, factor),
      unknown: scaled(unknown, factor),
    },
  };
  return { ...one, times };
}

function caseOf(name: string, run: RunView): TimelineCase {
  const typical = typicalStep(run);
  const times = stepTimes(run);
  const drawn = typicalRank(typical, times);
  if (drawn === undefined) throw new ConfigError(`run ${name} has no recorded step; run a step first`);
  const collectives = lastSteps(run)
    .flat()
    .map((record) => record.collectives);
  return {
    name,
    lanes: timeline(drawn, drawn.start, waitsOf(typical).get(drawn.rank)),
    step: drawn.step,
    times,
    wireBytes: mean(collectives.map((events) => events.reduce((sum, { wireBytes }) => sum + wireBytes, 0))),
    numCollectives: mean(collectives.map(({ length }) => length)),
  };
}

/** The rank that is nearest the medians: what is drawn is what the labels say. */
function typicalRank(records: readonly StepRecord[], { step, waits }: StepTimes): StepRecord | undefined {
  const all = waitsOf(records);
  const distance = ({ rank, start, end }: StepRecord): number => {
    const own = waitSecondsOf(all.get(rank) ?? []);
    const apart = Math.abs(own.wire - waits.wire.median) + Math.abs(own.peer - waits.peer.median);
    const rest = Math.abs(own.core - waits.core.median) + Math.abs(own.unknown - waits.unknown.median);
    return Math.abs(end - start - step.median) + apart + rest;
  };
  return records.reduce<StepRecord | undefined>(
    (best, one) => (best === undefined || distance(one) < distance(best) ? one : best),
    undefined,
  );
}
