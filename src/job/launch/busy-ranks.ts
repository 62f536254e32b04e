import { describeActivity, interruptChildren } from '../../cell/native-call';
import type { Call } from './call';
import type { RankProcess } from './rank-process';

/** A rank that works. */
export interface BusyRank {
  readonly rank: number;
  readonly pid: number;
  /** What its process is in, as the rest of a sentence; see [Note: native calls]. */
  readonly activity: string;
}

type Running = ReadonlyMap<number, Call>;

/** Ranks that work now, and what their processes are in. */
export function busyRanks(running: Running, processes: readonly RankProcess[]): BusyRank[] {
  return [...running].map(([rank, { since }]) => {
    const pid = processes[rank]?.pid ?? 0;
    return { rank, pid, activity: describeActivity(pid, since) };
  });
}

/** Interrupts the processes that ranks have started for the work that they do now. */
export function interruptChildrenOf(running: Running, processes: readonly RankProcess[]): void {
  for (const [rank, { since }] of running) {
    const { pid } = processes[rank] ?? {};
    if (pid !== undefined) interruptChildren(pid, since);
  }
}
