import { rankNames, type Seconds } from '../core';
import { createFigure, type Figure } from './figure';
import { counted } from './format';
import { rowAxis, rowRange, titled } from './grammar/axes';
import { safe, soft } from './grammar/ink';
import { bars } from './grammar/marks';
import { CAUSE_FILL, hatch, NEUTRAL } from './grammar/palette';
import { plot } from './grammar/plot';
import { createTable } from './table';

/** What a rank does while ranks hang. */
export interface HangingRank {
  readonly rank: number;
  /** As 'waits in barrier #41 (cell 8, line 1)'. */
  readonly does: string;
  readonly isWaiting: boolean;
  /** How long the rank has done this; undefined if this is not known. */
  readonly seconds: Seconds | undefined;
}

/** Of more ranks, waiting ones with high numbers are left out first. */
const MOST_ROWS = 10;

const WAITING = { color: '#DDE2E7', pattern: hatch('/', NEUTRAL) } as const;

/** Draws for how long which ranks have waited, and what the ranks do for which they wait. */
export function hangLanes(ranks: readonly HangingRank[]): Figure {
  const missing = ranks.filter(({ isWaiting }) => !isWaiting);
  const waiting = ranks.filter(({ isWaiting }) => isWaiting);
  const drawn = [...missing, ...waiting].slice(0, MOST_ROWS).sort((a, b) => a.rank - b.rank);
  const longest = Math.max(1, ...waiting.map(({ seconds = 0 }) => seconds));
  const rows = drawn.map((each, at) => ({ ...each, at }));
  const left = ranks.length - drawn.length;
  const laneOf = (isWaiting: boolean) =>
    bars(
      rows
        .filter((row) => row.isWaiting === isWaiting)
        .map(({ at, seconds, does }) => ({
          at,
          length: isWaiting ? (seconds ?? longest) : longest,
          text: safe(does),
          said: safe(does),
        })),
      {
        fill: isWaiting ? WAITING : CAUSE_FILL['grad.shard'],
        hover: 'rank %{y}: %{customdata}<extra></extra>',
      },
    );
  const [waiters, absent] = [waiting, missing].map((each) => rankNames(each.map(({ rank }) => rank)));
  const verb = waiting.length === 1 ? 'waits' : 'wait';
  return createFigure({
    title: capitalized(`${waiters} ${verb} for ${missing.length === 0 ? 'each other' : absent}`),
    subtitle: `Waits so far.${left === 0 ? '' : ` ${counted(left, 'more rank')} not drawn.`}`,
    ...plot({ top: 60, left: 60, right: 24, foot: 42, pixels: 30 * rows.length + 8 }, [
      {
        x: { range: [0, longest * 1.02], ...titled('seconds') },
        y: rowAxis(
          rows.map(({ rank }) => soft(`rank ${rank}`)),
          rowRange(rows.length),
        ),
        data: [laneOf(true), laneOf(false)],
      },
    ]),
    table: createTable(ranks.map(({ rank, does, seconds }) => ({ rank, does, seconds: seconds ?? null }))),
  });
}

function capitalized(text: string): string {
  return `${text.slice(0, 1).toUpperCase()}${text.slice(1)}`;
}
