import { rankNames, type Seconds } from '../../core';
import { type ComparedReplicas, ranksOf, warnOnStderr } from '../../launch';
import { describeDifference, differingReplicas, type ReplicaSum } from '../../sharding';

/** Replicas of a run that differ. */
export interface ReplicaDrift {
  /** The first parameter that differs, in the model's order. */
  readonly parameter: string;
  /** The ranks that hold the parameter, in groups of ranks with equal values. */
  readonly ranks: readonly (readonly number[])[];
  /** The last step after which the replicas were compared and equal; null if they were never compared before. */
  readonly equalAfter: number | null;
  /** The step after which the difference was found. */
  readonly foundAfter: number;
}

/** Comparisons may take this share of the time of training. */
const MOST_TIME = 0.01;

const ADVICE =
  'Ranks that differ train different models, and their averaged gradients fit none of them. Continue from a checkpoint or with equal ' +
  'values, and look for code that skips an update or changes parameters on some ranks only';

/**
 * Compares the replicas of a run at the end of its calls. [Note: replicas] in sharding/replica-sums.ts. A difference is a warning,
 * not an error, because the values of all ranks are still there: the user can look at them, save them, or load a checkpoint.
 */
export class ReplicaChecks {
  readonly #warn: (message: string) => void;
  #drift: ReplicaDrift | null = null;
  #equalAfter: number | null = null;
  /** The time of the last comparison. */
  #cost: Seconds = 0;
  /** The time of the steps since the last comparison. */
  #trained: Seconds = 0;

  constructor(warn: (message: string) => void = warnOnStderr) {
    this.#warn = warn;
  }

  /** The difference that the last comparison found; null if there was none. */
  get drift(): ReplicaDrift | null {
    return this.#drift;
  }

  /** Whether a call of steps that take about `seconds` together should end with a comparison. */
  isDue(seconds: Seconds): boolean {
    return this.#cost <= MOST_TIME * (this.#trained + seconds);
  }

  /** Takes the time of the steps of a call, and the ranks' checksums after step `step`; a rank of PyTorch sends none. */
  compare(step: number, seconds: Seconds, ranks: readonly (ComparedReplicas | null | undefined)[]): void {
    this.#trained += seconds;
    const compared = ranks.filter((one) => one?.sums !== undefined && one !== null);
    if (compared.length < ranks.length || compared.length === 0) return;
    this.#trained = 0;
    this.#cost = Math.max(...compared.map((one) => one?.seconds ?? 0));
    const differing = differingReplicas(new Map(compared.map((one, rank) => [rank, one?.sums ?? []])));
    const [first] = differing;
    if (first === undefined) {
      this.#drift = null;
      this.#equalAfter = step;
      return;
    }
    const isNew = this.#drift === null;
    const equalAfter = this.#equalAfter;
    this.#drift ??= { parameter: first.name, ranks: first.ranks, equalAfter, foundAfter: step };
    if (!isNew) return;
    const before = equalAfter === null ? '' : `; after step ${equalAfter} they were equal`;
    this.#warn(
      `replicas differ after step ${step}: ${describeDifference(differing, rankNames)}${before}. ${ADVICE}; ` +
        'await run.checkReplicas() names the rank and the event',
    );
  }
}

/**
 * Warns if replicas that a cell or function trained differ; `sums` and `numUpdates` are by rank. A replica is compared only if all
 * ranks that hold it have ended this call.
 */
export function compareCellReplicas(
  title: string,
  sums: ReadonlyMap<number, readonly ReplicaSum[]>,
  numUpdates: ReadonlyMap<number, number>,
  warn: (message: string) => void = warnOnStderr,
): void {
  const whole = new Map(
    [...sums].map(([rank, own]) => [
      rank,
      own.filter((sum) => ranksOf(sum).every((other) => sums.has(other))),
    ]),
  );
  const differing = differingReplicas(whole);
  if (differing.length === 0) return;
  const counts = [...numUpdates].map(([rank, count]) => `rank ${rank}: ${count}`);
  const isUneven = new Set(numUpdates.values()).size > 1;
  const updates = isUneven ? ` The ranks made different numbers of updates (${counts.join(', ')}).` : '';
  warn(
    `replicas differ at the end of ${title}: ${describeDifference(differing, rankNames)}.${updates} ${ADVICE}`,
  );
}
