import type { Claim } from './claim';
import type { Finding, Verdict } from './finding';
import type { PlanLab, RunLab } from './lab';

/** The expected result of a check; it is stored, so that an effect of a changed formula or engine is noticed. */
export interface Expectation {
  readonly verdict: Verdict;
  /** The finding's number (`numberOf`); undefined if the finding has no number. */
  readonly value?: number | undefined;
  /** How much a new number may differ from `value`, in the unit of `value`. Default: 0.5% of `value`. */
  readonly within?: number | undefined;
}

/** Results of runs, by name. */
export type Facts = Readonly<Record<string, number>>;

/** Runs on real ranks whose results one or more claims use; the last results are stored, so checks need no new runs. */
export interface Experiment {
  /** The experiment's unique name. */
  readonly name: string;
  run(lab: RunLab): Promise<Facts>;
}

/** A claim with its check. */
export interface ClaimEntry {
  readonly claim: Claim;
  readonly expected: Expectation;
  /** The experiment whose facts the check gets; undefined if the check needs no run. */
  readonly experiment?: Experiment | undefined;
  /** Whether the check uses times of runs, which are not judged on a busy machine. */
  readonly isTimed: boolean;
  /** Why the verdict is a judgement; undefined if the verdict is derived. */
  readonly judged?: string;
  /** The verdict alone, without the texts of a finding. */
  verdict(lab: PlanLab, facts: Facts): Verdict;
  /** Returns the finding, fast and without side effects; `facts` are empty without an experiment. */
  check(lab: PlanLab, facts: Facts): Finding;
}
