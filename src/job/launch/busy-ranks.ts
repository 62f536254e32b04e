import { describeActivity, interruptChildren } from '../../cell/native-call';
import type { Call } from './call';
import type { RankProcess } from './rank-process';

/** A rank that runs work. */
export interface BusyRank {
  readonly rank: number;
  readonly pid: number;
  /** The call that its process is in, as the end of a sentence; see [Note: native calls]. */
  readonly activity: string;
}

type Running = ReadonlyMap<number, Call>;

/** Ranks that run work now, and the calls that their processes are in. */
export function busyRanks(running: Running, processes: readonly RankProcess[]): BusyRank[] {
  return [...running].map(([rank, { since }]) => {
    const pid = processes[rank]?.pid ?? 0;
    return { rank, pid, activity: describeActivity(pid, since) };
  });
}

/** Interrupts the child processes that ranks started for their current work. */
export function interruptChildrenOf(running: Running, processes: readonly RankProcess[]): void {
  for (const [rank, { since }] of running) {
    const { pid } = processes[rank] ?? {};
    if (pid !== undefined) interruptChildren(pid, since);
  }
}
