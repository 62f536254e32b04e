import type { CollectiveOp, Seconds } from '../../core';
import type { CollectiveStatus, RankStatus } from '../../wire';

/** The status board has this cell number while the work is not a cell. */
export const NO_CELL = 0;

/** A collective in which a rank's main thread waits. */
export interface WaitingIn {
  readonly op: CollectiveOp | 'subgroup';
  readonly group: string;
  /** Global ranks of the collective; for a send or recv, the rank that waits and its peer. */
  readonly ranks: readonly number[];
  /** Number of the collective in its group, from 1. */
  readonly number: number;
  readonly module: string;
  /** A description of the collective's data, if the caller of the collective gave one. */
  readonly detail?: string | undefined;
  readonly cell: number | undefined;
  readonly line: number | undefined;
  /** Whether ranks do not compare this call with those of others before they run it, as PyTorch: so ranks may call different ones. */
  readonly isUnchecked?: boolean | undefined;
}

/** Where a main thread is that runs and waits in no collective. */
export interface Look {
  /** The line of the user's code that runs, such as 'cell 8, line 3'; '' if none runs. */
  readonly place: string;
  /** A number that grows with each operation on tensors. */
  readonly numOps: number;
  /** A number that grows by bytes of values that the thread's code makes, and for each look at native code that computes. */
  readonly madeBytes: number;
  /** Whether the thread awaits a promise, a timer or a file, so that no code runs. */
  readonly isAwaiting: boolean;
}

/** The state of a rank's main thread at one moment, as its courier sees it. */
export interface Situation {
  readonly state: 'idle' | 'running' | 'waiting';
  /** Number of the running cell, if there is one. */
  readonly cell: number | undefined;
  /** When this state began. */
  readonly since: Seconds;
  readonly waiting: WaitingIn | undefined;
  /** Whether the rank's comm thread is in a collective. */
  readonly hasBackground: boolean;
  /** Numbers of the collectives in which this rank's threads are now, by `streamOf`. Of PyTorch: of the newest that were called. */
  readonly lastCalled: Readonly<Record<string, number>>;
  /** The number of asynchronous collectives that the rank had started and not settled when it began to wait; undefined: unknown. */
  readonly numPosted?: number | undefined;
  /** undefined: nobody asked, or the main thread did not answer, because it waits for the system or is in native code. */
  readonly look?: Look | undefined;
  /** The line at which a debugger has stopped the main thread, as 'cell 3, line 2'. */
  readonly stoppedAt?: string | undefined;
  /** Whether a walk halts the rank before a point of its step. */
  readonly isHalted?: boolean | undefined;
}

/** Converts the content of a status board. `ranksOf` returns the global ranks of a group. */
export function situationOf(
  status: RankStatus,
  rank: number,
  ranksOf: (group: string) => readonly number[],
): Situation {
  const { collective, background, since, numPosted } = status;
  const lastCalled: Record<string, number> = {};
  for (const called of [background, collective]) {
    if (called) lastCalled[streamOf(waitingIn(called, rank, ranksOf(called.group)))] = called.number;
  }
  return {
    state: status.state === 'collective' ? 'waiting' : status.state,
    cell: status.cell === NO_CELL ? undefined : status.cell,
    since,
    waiting: collective && waitingIn(collective, rank, ranksOf(collective.group)),
    lastCalled,
    numPosted,
    hasBackground: background !== undefined,
  };
}

/** Whether a call has two ranks, `ranks`: this rank and its peer. */
export function isPair({ op }: Pick<WaitingIn, 'op'>): boolean {
  return op === 'send' || op === 'recv';
}

/** Names the calls that have one numbering: a group's collectives, or the sends or the recvs of one direction. */
export function streamOf({ op, group, ranks }: Pick<WaitingIn, 'op' | 'group' | 'ranks'>): string {
  return isPair({ op }) ? `${group} ${op} ${ranks.join(' ')}` : group;
}

function waitingIn(status: CollectiveStatus, rank: number, group: readonly number[]): WaitingIn {
  const { op, number, module, detail, cell, line, peer } = status;
  // A size exchange is part of an uneven allGather.
  const ranks = op === 'send' || op === 'recv' ? [rank, group[peer] ?? peer] : group;
  return {
    op: op === 'exchange' ? 'allGather' : op,
    group: status.group,
    ranks,
    number,
    module,
    detail,
    cell,
    line,
  };
}
