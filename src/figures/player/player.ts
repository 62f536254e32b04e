import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type DisplayBundle, sumOf } from '../../core';
import { byteScale, inUnit } from '../format';
import { escapeHtml } from '../grammar/ink';
import { createTable, type Table } from '../table';
import { playerSvg, stillText } from './player-still';
import { numPassed, type PlayerView, packedView, playerView, reachedPoint } from './player-view';
import { describePoint } from './point-words';
import type { WalkRecord } from './walk-record';

/** Options of a player. */
export interface PlayerOptions {
  /** The round that the player shows first, counted from 0. Default: the last round. */
  readonly round?: number;
}

/**
 * Returns a player of a recorded walk as HTML that needs no network and no other file. Where no script runs, the HTML shows a
 * still of one round. Several players on one page do not affect each other.
 */
export function playerHtml(record: WalkRecord, options: PlayerOptions = {}): string {
  const view = playerView(record);
  const round = shownRound(record, options);
  // Base64 hides markup from whatever sanitizes or rewrites the page.
  const still = Buffer.from(playerSvg(record, round)).toString('base64');
  const data = JSON.stringify({ view: packedView(view), round }).replaceAll('<', '\\u003c');
  const id = createHash('sha256').update(data).digest('hex').slice(0, 16);
  return (
    `<div data-shardlab-player="${id}">` +
    `<img width="800" style="max-width:100%" alt="${escapeHtml(stillText(view, round))}" src="data:image/svg+xml;base64,${still}">` +
    `<script type="application/json">${data}</script>` +
    `<script type="module">${pageScript()}\nstartPlayers("${id}");</script></div>`
  );
}

/** Returns a player as a notebook's output, with a table of the shown round for places without HTML. */
export function playerBundle(record: WalkRecord, options: PlayerOptions = {}): DisplayBundle {
  return { 'text/html': playerHtml(record, options), 'text/plain': roundTable(record, options).toText() };
}

/** Returns where each rank stands in one round, what it is about to do, and what it holds. */
export function roundTable(record: WalkRecord, options: PlayerOptions = {}): Table {
  const round = shownRound(record, options);
  const view = playerView(record);
  const positions = record.rounds[round] ?? [];
  const rows = positions.map((position, rank) => {
    const reached = reachedPoint(record, rank, position);
    return {
      rank,
      state: position.state,
      at: reached === undefined || position.state === 'ended' ? null : describePoint(reached.point).label,
      bytes: reached === undefined ? null : sumOf(reached.bytes, Number),
      whole: view.whole === null ? null : wholeModules(view, rank, numPassed(position)).join(', '),
    };
  });
  const scale = byteScale(Math.max(0, ...rows.map(({ bytes }) => bytes ?? 0)));
  const of = record.rounds.length === 0 ? 'no round yet' : `round ${round + 1} of ${record.rounds.length}`;
  return createTable(rows, {
    title: `${record.title}, ${of}`,
    columns: [
      { key: 'rank' },
      { key: 'state' },
      { key: 'at', title: 'stands at' },
      {
        key: 'bytes',
        title: 'held',
        align: 'right',
        format: (value) => (typeof value === 'number' ? inUnit(value, scale) : '—'),
      },
      ...(view.whole === null ? [] : [{ key: 'whole', title: 'whole modules' }]),
    ],
  });
}

/**
 * Returns the code that draws players in a page: an ES module that is also the code of an anywidget, without the comments and the
 * indentation of its files.
 */
export function pageScript(): string {
  const [parts, page, style] = ['page-parts.mjs', 'page.mjs', 'page.css'].map((file) =>
    readFileSync(join(__dirname, file), 'utf8'),
  );
  const code = `${parts}${page}`
    .replaceAll(/^ *(\/\/|\/\*\*).*\n/gm, '')
    .replaceAll(/^import .*\n|^export (?=function)/gm, '')
    .replaceAll(/^ +/gm, '');
  const css = JSON.stringify(style?.replaceAll(/\s+/g, ' ')).replaceAll('<', '\\u003c');
  return code.replace("'/* style */'", () => css);
}

function shownRound({ rounds }: WalkRecord, { round = rounds.length - 1 }: PlayerOptions): number {
  return Math.min(Math.max(0, round), Math.max(0, rounds.length - 1));
}

/** Returns the names of the modules whose parameters are whole on a rank that has passed `passed` points. */
function wholeModules({ whole, modules }: PlayerView, rank: number, passed: number): readonly string[] {
  const ranges = whole?.[rank] ?? [];
  const rows = ranges.filter(({ from, to }) => from <= passed && passed < to).map(({ row }) => modules[row]);
  return rows.flatMap((row) => (row === undefined ? [] : [row.name === '' ? 'the root' : row.name]));
}
