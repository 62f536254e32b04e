import type { CollectiveStatus, RankStatus } from '../../dist/status-board';
import type { Situation, WaitingIn } from './situation';
import { NO_CELL } from './work-board';

/** What a status board says, in the words of this folder. `ranksOf` knows the ranks of each group. */
export function situationOf(
  status: RankStatus,
  rank: number,
  ranksOf: (group: string) => readonly number[],
): Situation {
  const { collective, background, since } = status;
  const lastCalled: Record<string, number> = {};
  for (const called of [background, collective]) if (called) lastCalled[called.group] = called.number;
  return {
    state: stateOf(status),
    cell: status.cell === NO_CELL ? undefined : status.cell,
    since,
    waiting: collective && waitingIn(collective, rank, ranksOf(collective.group)),
    lastCalled,
    hasBackground: background !== undefined,
  };
}

function stateOf({ state }: RankStatus): Situation['state'] {
  return state === 'collective' ? 'waiting' : state;
}

function waitingIn(status: CollectiveStatus, rank: number, group: readonly number[]): WaitingIn {
  const { op, number, module, cell, line, peer } = status;
  const isPair = op === 'send' || op === 'recv';
  // A size exchange is part of an uneven allGather.
  const ranks = isPair ? [rank, group[peer] ?? peer] : group;
  return { op: op === 'exchange' ? 'allGather' : op, group: status.group, ranks, number, module, cell, line };
}
