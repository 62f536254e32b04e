import { ShardlabError } from '../../core/errors';
import type { Claim } from './claim';
import type { Finding, Verdict } from './finding';
import type { PlanLab, RunLab } from './lab';

/** What a check is expected to find: frozen, so that a change of a formula or of the engine shows. */
export interface Expectation {
  readonly verdict: Verdict;
  /** The finding's number (`numberOf`); left out where it has none. */
  readonly value?: number | undefined;
  /** How far a fresh number may lie from it, in its unit. Default: 0.5% of the value. */
  readonly within?: number | undefined;
}

/** Numbers that runs gave, by name. */
export type Facts = Readonly<Record<string, number>>;

/** Runs on real ranks that one or more claims stand on; its last facts are stored, so that they show without running. */
export interface Experiment {
  /** Unique. */
  readonly name: string;
  run(lab: RunLab): Promise<Facts>;
}

/** A claim with what checks it. */
export interface ClaimEntry {
  readonly claim: Claim;
  readonly expected: Expectation;
  /** Whose facts the check gets; left out where it needs no run. */
  readonly experiment?: Experiment | undefined;
  /** Fast and without side effects; `facts` are empty without an experiment. */
  check(lab: PlanLab, facts: Facts): Finding;
}

/** A number of an experiment. Throws: CHECK where it is not there: the experiment changed since it was recorded. */
export function fact(facts: Facts, name: string): number {
  const value = facts[name];
  if (value !== undefined) return value;
  throw new ShardlabError(
    'CHECK',
    `the recorded runs have no '${name}' (there are ${Object.keys(facts).join(', ') || 'none'}); ` +
      `run shardlab claims --record`,
  );
}
