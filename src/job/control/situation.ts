import type { CollectiveOp } from '../../core/events';
import type { Seconds } from '../../core/units';
import type { CollectiveStatus, RankStatus } from '../../transport/status-board';

/** The status board has this cell number while the work is not a cell. */
export const NO_CELL = 0;

/** A collective in which a rank's main thread waits. */
export interface WaitingIn {
  readonly op: CollectiveOp | 'subgroup';
  readonly group: string;
  /** Global ranks of the collective, or the two ranks of a send. */
  readonly ranks: readonly number[];
  /** Number of the collective in its group, from 1. */
  readonly number: number;
  readonly module: string;
  /** A description of the collective's data, if the caller of the collective gave one. */
  readonly detail?: string | undefined;
  readonly cell: number | undefined;
  readonly line: number | undefined;
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
  /** Numbers of the collectives in which this rank's threads are now, by group. */
  readonly lastCalled: Readonly<Record<string, number>>;
}

/** Converts the content of a status board. `ranksOf` returns the global ranks of a group. */
export function situationOf(
  status: RankStatus,
  rank: number,
  ranksOf: (group: string) => readonly number[],
): Situation {
  const { collective, background, since } = status;
  const lastCalled: Record<string, number> = {};
  for (const called of [background, collective]) if (called) lastCalled[called.group] = called.number;
  return {
    state: status.state === 'collective' ? 'waiting' : status.state,
    cell: status.cell === NO_CELL ? undefined : status.cell,
    since,
    waiting: collective && waitingIn(collective, rank, ranksOf(collective.group)),
    lastCalled,
    hasBackground: background !== undefined,
  };
}

function waitingIn(status: CollectiveStatus, rank: number, group: readonly number[]): WaitingIn {
  const { op, number, module, detail, cell, line, peer } = status;
  const isPair = op === 'send' || op === 'recv';
  // A size exchange is part of an uneven allGather.
  const ranks = isPair ? [rank, group[peer] ?? peer] : group;
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
