import { sumOf } from '../../core';
import { counted, inUnit } from '../format';
import { escapeHtml, LIGHT, safe, type Theme, textWidth, wrapped } from '../grammar/ink';
import { CAUSE_FILL, type Fill, NEUTRAL, STACK_ORDER } from '../grammar/palette';
import { FONT_FAMILY, STATIC_WIDTH, SUBTITLE_SIZE, TITLE_SIZE } from '../grammar/template';
import { element, fillOf, type Hatches, svgText, round as twoDecimals } from '../static/svg';
import { KIND_FILL, type PlayerView, playerView, WAITING_FILL } from './player-view';
import { KIND_WORDS, POINT_KINDS } from './point-words';
import type { WalkRecord } from './walk-record';

const LEFT = 72;
const RIGHT = STATIC_WIDTH - 16;
/** The widest column of a round. */
const WIDEST = 28;
const ROW = 20;
const TEXT = 11;
const LINE = 16;
/** The room for a rank's total at the end of its bar. */
const TOTAL = 70;

/** Draws one round of a walk as a picture, 800 pixels wide, for places where no script runs. */
export function playerSvg(
  record: WalkRecord,
  round = record.rounds.length - 1,
  theme: Theme = LIGHT,
): string {
  const view = playerView(record);
  const hatches: Hatches = new Map();
  const parts: string[] = [
    svgText(8, 22, safe(record.title), { size: TITLE_SIZE, weight: 600, fill: theme.strong }),
    svgText(8, 44, safe(subtitleOf(view, round)), { size: SUBTITLE_SIZE, fill: theme.soft }),
  ];
  let top = 58;
  for (const draw of [lanes, kindLegend, bars, causeLegend, sentences]) {
    const drawn = draw({ view, round, theme, top, fill: (fill) => fillOf(hatches, fill) });
    parts.push(...drawn.parts);
    top += drawn.height;
  }
  const size = { width: STATIC_WIDTH, height: Math.ceil(top + 8) };
  const attributes = {
    xmlns: 'http://www.w3.org/2000/svg',
    role: 'img',
    'aria-label': escapeHtml(stillText(view, round)),
    ...size,
    viewBox: `0 0 ${size.width} ${size.height}`,
    'font-family': FONT_FAMILY,
  };
  const paper = element('rect', { ...size, fill: theme.background });
  const defs = element('defs', {}, [...hatches.values()].join(''));
  return element('svg', attributes, `${defs}${paper}\n${parts.join('\n')}\n`);
}

/** Says in words what a still shows: the walk, the round, and where each rank stands. */
export function stillText(view: PlayerView, round: number): string {
  const positions = view.rounds[round] ?? [];
  const says = positions.map((_, rank) => sentenceOf(view, round, rank)).join('; ');
  return `${view.title}, ${roundText(view, round)}${says === '' ? '' : `: ${says}`}`;
}

/** Says where a rank stands in a round. */
function sentenceOf({ rounds, texts }: PlayerView, round: number, rank: number): string {
  return `rank ${rank} ${texts[rounds[round]?.[rank]?.sentence ?? -1] ?? ''}`;
}

function roundText({ rounds }: PlayerView, round: number): string {
  return rounds.length === 0 ? 'no round yet' : `round ${round + 1} of ${rounds.length}`;
}

function subtitleOf(view: PlayerView, round: number): string {
  const text = roundText(view, round);
  return `${text.slice(0, 1).toUpperCase()}${text.slice(1)} of a walk with ${counted(view.points.length, 'rank')}. Held bytes.`;
}

interface Still {
  readonly view: PlayerView;
  readonly round: number;
  readonly theme: Theme;
  readonly top: number;
  readonly fill: (fill: Fill) => string;
}

interface Drawn {
  readonly parts: readonly string[];
  readonly height: number;
}

/** Draws a row per rank and a column per round, and an outline around the shown round. */
function lanes({ view, round, theme, top, fill }: Still): Drawn {
  const { points, rounds } = view;
  const width = Math.min(WIDEST, (RIGHT - LEFT) / Math.max(1, rounds.length));
  const kinds = POINT_KINDS.filter((kind) => view.kinds.some(({ name }) => name === KIND_WORDS[kind]));
  const labels = points.map((_, rank) =>
    svgText(LEFT - 8, top + rank * ROW + 14, `rank ${rank}`, {
      size: TEXT,
      fill: theme.soft,
      anchor: 'end',
    }),
  );
  // One path per fill: a picture of a long walk has thousands of cells.
  const paths = new Map<string, string>();
  const right = twoDecimals(width - (width > 6 ? 1 : 0));
  for (const [rank, reached] of points.entries()) {
    for (const [index, positions] of rounds.entries()) {
      const position = positions[rank];
      const kind = kinds[reached[(position?.numReached ?? 0) - 1]?.kind ?? -1];
      if (position === undefined || kind === undefined || position.state === 'ended') continue;
      const paint = fill(position.state === 'waiting' ? WAITING_FILL : KIND_FILL[kind]);
      const cell = `M${twoDecimals(LEFT + index * width)} ${top + rank * ROW + 2}h${right}v${ROW - 4}h-${right}z`;
      paths.set(paint, `${paths.get(paint) ?? ''}${cell}`);
    }
  }
  const cells = [...labels, ...[...paths].map(([paint, d]) => element('path', { d, fill: paint }))];
  const height = points.length * ROW;
  const marker = element('rect', {
    x: LEFT + round * width - 1,
    y: top - 1,
    width: width + 1,
    height: height + 2,
    fill: 'none',
    stroke: theme.strong,
    'stroke-width': 2,
  });
  return { parts: rounds.length === 0 ? cells : [...cells, marker], height: height + 10 };
}

function kindLegend(still: Still): Drawn {
  const { view } = still;
  const kinds = POINT_KINDS.filter((kind) => view.kinds.some(({ name }) => name === KIND_WORDS[kind]));
  const entries = kinds.map((kind) => ({ name: KIND_WORDS[kind], fill: KIND_FILL[kind] }));
  return legend(still, [...entries, { name: view.waiting.name, fill: WAITING_FILL }]);
}

function causeLegend(still: Still): Drawn {
  const causes = STACK_ORDER.filter((cause) => still.view.causes.some(({ name }) => name === cause));
  return legend(
    still,
    causes.map((cause) => ({ name: cause, fill: CAUSE_FILL[cause] })),
  );
}

/** Draws swatches with names, in as many lines as they need. */
function legend({ theme, top, fill }: Still, entries: readonly { name: string; fill: Fill }[]): Drawn {
  const parts: string[] = [];
  let [x, y] = [LEFT, top + 12];
  for (const entry of entries) {
    const width = 12 + 5 + textWidth(entry.name, TEXT) * 1.1 + 14;
    if (x + width > RIGHT && x > LEFT) [x, y] = [LEFT, y + LINE + 2];
    parts.push(element('rect', { x, y: y - 10, width: 12, height: 12, fill: fill(entry.fill) }));
    parts.push(svgText(x + 17, y, safe(entry.name), { size: TEXT, fill: theme.soft }));
    x += width;
  }
  return { parts, height: entries.length === 0 ? 0 : y - top + 14 };
}

/** Draws a stacked bar per rank on one scale, and a line at the most bytes of the walk. */
function bars({ view, round, theme, top, fill }: Still): Drawn {
  const { points, rounds, scale, most } = view;
  const causes = STACK_ORDER.filter((cause) => view.causes.some(({ name }) => name === cause));
  const perByte = most.bytes === 0 ? 0 : (RIGHT - TOTAL - LEFT) / most.bytes;
  const first = top + 18;
  const rows = points.flatMap((reached, rank) => {
    const bytes = reached[(rounds[round]?.[rank]?.numReached ?? 0) - 1]?.bytes ?? [];
    const y = first + rank * ROW;
    let x = LEFT;
    const segments = causes.flatMap((cause, index) => {
      const width = (bytes[index] ?? 0) * perByte;
      x += width;
      return width === 0
        ? []
        : [
            element('rect', {
              x: x - width,
              y: y + 2,
              width,
              height: ROW - 4,
              fill: fill(CAUSE_FILL[cause]),
            }),
          ];
    });
    const total = inUnit(sumOf(bytes, Number), scale);
    return [
      svgText(LEFT - 8, y + 14, `rank ${rank}`, { size: TEXT, fill: theme.soft, anchor: 'end' }),
      ...segments,
      svgText(RIGHT - TOTAL + 8, y + 14, total, { size: TEXT, fill: theme.strong, weight: 600 }),
    ];
  });
  const x = RIGHT - TOTAL;
  const height = points.length * ROW;
  const rule = element('line', {
    x1: x,
    x2: x,
    y1: first - 2,
    y2: first + height,
    stroke: NEUTRAL,
    'stroke-width': 1.5,
    'stroke-dasharray': '5 4',
  });
  const label = `most of the walk: ${inUnit(most.bytes, scale)} (rank ${most.rank})`;
  const heading = svgText(x, top + 12, label, { size: TEXT, fill: theme.soft, anchor: 'end' });
  return { parts: [...rows, rule, heading], height: height + 26 };
}

function sentences({ view, round, theme, top }: Still): Drawn {
  const lines = (view.rounds[round] ?? []).flatMap((_, rank) =>
    wrapped(sentenceOf(view, round, rank), SUBTITLE_SIZE, RIGHT - 8),
  );
  const parts = lines.map((line, i) =>
    svgText(8, top + 14 + i * (LINE + 1), safe(line), { size: SUBTITLE_SIZE, fill: theme.strong }),
  );
  return { parts, height: lines.length * (LINE + 1) + 8 };
}
