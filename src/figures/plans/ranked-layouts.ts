import type { Bytes, Seconds } from '../../core';
import { familyOf, type Planned, peakInBytes, type Recommendation, reservableBytes } from '../../planner';
import { createFigure, type Figure, type Quantities, quantity, type Title } from '../figure';
import { byteScale, counted, inUnit, type Scaled, timeScale } from '../format';
import { log10, logRange, logTicks, titled } from '../grammar/axes';
import { bold, safe, soft, strong, wrapped } from '../grammar/ink';
import { dots, line, note, PAPER, ruleX } from '../grammar/marks';
import { OVER } from '../grammar/palette';
import { plot } from '../grammar/plot';
import type { Annotation, Marker, ScatterTrace } from '../grammar/plotly';
import { STATIC_WIDTH } from '../grammar/template';
import { createTable, type Table } from '../table';
import { layoutWords, recommendationTitle } from './plan-texts';

const FRAME = { top: 86, left: 58, right: 10, foot: 48 } as const;
const DOTS = [0, 0.4] as const;
const LEAST_PIXELS = 250;
const MOST_WINNERS = 5;
const WINNER = '#2362AC';
const LOSER = 'rgba(128,128,128,.55)';

/**
 * Draws the layouts that a search names, by time and memory: the winners with numbers, the other layouts in grey, the frontier,
 * and the reason why each other family lost.
 */
export function rankedLayouts(recommendation: Recommendation): Figure {
  const layouts = layoutsOf(recommendation);
  const winners = layouts.filter(({ rank }) => rank !== null).slice(0, MOST_WINNERS);
  const usable = Math.max(
    ...[...recommendation.ranked, ...recommendation.losses.map(({ best }) => best)].map(({ layout }) =>
      reservableBytes(layout),
    ),
  );
  const time = timeScale(Math.max(...layouts.map(({ seconds }) => seconds)));
  const bytes = byteScale(usable);
  const up = logRange(
    layouts.map(({ seconds }) => seconds / time.divisor),
    0.08,
  );
  const capacity = usable / bytes.divisor;
  const sizes = layouts.map(({ memoryBytes }) => memoryBytes / bytes.divisor);
  const smallest = Math.min(...sizes);
  const most = Math.min(Math.max(capacity, smallest) * 1.6, Math.max(capacity * 1.08, ...sizes));
  const lowest = Math.min(smallest, capacity);
  const least = lowest < most * 0.3 ? 0 : lowest * 0.9;
  const scales = { time, bytes, most };
  const words = rankedParagraphs(winners, familyLosers(layouts), scales);
  const pixels = Math.max(LEAST_PIXELS, wordsPixels(words));
  return createFigure({
    title: rankedFinding(recommendation, layouts, time),
    subtitle: recommendationTitle(recommendation),
    ...plot({ ...FRAME, pixels }, [
      {
        x: {
          domain: DOTS,
          range: [least, most + (most - least) * 0.06],
          ...titled(`peak memory, ${bytes.unit}`),
        },
        y: {
          range: up,
          ...logTicks(10 ** up[0], 10 ** up[1], (value) => String(value), 5),
          ...titled(`iteration, ${time.unit}`),
        },
        data: [...frontier(layouts, scales), ...layoutDots(layouts, winners, scales)],
        annotations: [
          note(capacity, 1, soft(`${inUnit(usable, bytes)} usable`), ABOVE),
          ...numbers(winners, scales, {
            x: ((STATIC_WIDTH - FRAME.left - FRAME.right) * DOTS[1]) / (most * 1.06 - least * 1.06),
            y: pixels / (up[1] - up[0]),
          }),
          ...rankedWords(words, pixels),
        ],
        shapes: [{ ...ruleX(capacity, [0, 1], { width: 1.5, color: OVER, dash: 'dash' }), yref: 'paper' }],
      },
    ]),
    table: tableOf(layouts),
    quantities: quantitiesOf(layouts),
  });
}

const ABOVE = { yref: 'paper', xanchor: 'right', yanchor: 'bottom' } as const;

/** Returns the ranked layouts, best first, then the best layout of each other family. */
function layoutsOf({ ranked, losses }: Recommendation): RankedLayout[] {
  const rankedLayout = (
    { layout, prediction }: Planned,
    rank: number | null,
    reason: string | null,
  ): RankedLayout => ({
    rank,
    name: layoutWords(layout),
    family: familyOf(layout),
    seconds: prediction.seconds.value,
    lowSeconds: prediction.seconds.low,
    highSeconds: prediction.seconds.high,
    memoryBytes: peakInBytes(prediction.memory).value,
    fits: prediction.fits,
    reason,
  });
  return [
    ...ranked.map((planned, i) => rankedLayout(planned, i + 1, null)),
    ...losses.map(({ best, why }) => rankedLayout(best, null, why)),
  ];
}

function xOf({ memoryBytes }: RankedLayout, { bytes, most }: Scales): number {
  return Math.min(most, memoryBytes / bytes.divisor);
}

function yOf({ seconds }: RankedLayout, { time }: Scales): number {
  return log10(seconds / time.divisor);
}

/** Draws a stepped line through the layouts that fit and that no other layout beats in both time and memory. */
function frontier(layouts: readonly RankedLayout[], scales: Scales): ScatterTrace[] {
  const sorted = layouts
    .filter(({ fits }) => fits)
    .sort((a, b) => a.memoryBytes - b.memoryBytes || a.seconds - b.seconds);
  let fastest = Number.POSITIVE_INFINITY;
  const kept = sorted.filter(({ seconds }) => {
    const isFaster = seconds < fastest;
    if (isFaster) fastest = seconds;
    return isFaster;
  });
  if (kept.length < 2) return [];
  const points = {
    x: kept.map((layout) => xOf(layout, scales)),
    y: kept.map((layout) => yOf(layout, scales)),
  };
  return [line(points, { width: 1.4, color: '#3E9C6B', shape: 'hv' }, { hoverinfo: 'skip' })];
}

function layoutDots(
  layouts: readonly RankedLayout[],
  winners: readonly RankedLayout[],
  scales: Scales,
): ScatterTrace[] {
  const of = (marker: Marker, isShown: (layout: RankedLayout) => boolean): ScatterTrace[] =>
    dots(
      layouts
        .filter(isShown)
        .map((layout) => ({ x: xOf(layout, scales), y: yOf(layout, scales), text: hover(layout, scales) })),
      marker,
    );
  const full = { size: 6, color: LOSER };
  const open = { ...full, symbol: 'circle-open', line: { width: 1, color: LOSER } } as const;
  return [
    ...of(full, (layout) => layout.fits && !winners.includes(layout)),
    ...of(open, (layout) => !layout.fits && !winners.includes(layout)),
    ...of({ size: 9, color: WINNER }, (layout) => winners.includes(layout)),
  ];
}

function hover(layout: RankedLayout, scales: Scales): string {
  const why = layout.reason === null ? '' : `<br>${safe(layout.reason)}`;
  return `<b>${safe(layout.name)}</b><br>${numbersOf(layout, scales)}${why}`;
}

/** Writes the winners' ranks beside their dots; dots that are near each other have one label, as "1, 2, 5". */
function numbers(
  winners: readonly RankedLayout[],
  scales: Scales,
  perUnit: { readonly x: number; readonly y: number },
): Annotation[] {
  const groups: { readonly x: number; readonly y: number; left: number; readonly ranks: number[] }[] = [];
  for (const layout of winners) {
    const [x, y] = [xOf(layout, scales), yOf(layout, scales)];
    const near = groups.find(
      (group) =>
        Math.abs(group.x - x) * perUnit.x < NEAR.across && Math.abs(group.y - y) * perUnit.y < NEAR.down,
    );
    if (near === undefined) groups.push({ x, y, left: x, ranks: [layout.rank ?? 0] });
    else {
      near.left = Math.min(near.left, x);
      near.ranks.push(layout.rank ?? 0);
    }
  }
  return groups.map(({ left, y, ranks }) =>
    note(left, y, bold(ranks.join(', ')), { xanchor: 'right', xshift: -5, yanchor: 'middle' }),
  );
}

/** Dots that are nearer to each other than this, in pixels, have one label. */
const NEAR = { across: 30, down: 16 } as const;

function tableOf(layouts: readonly RankedLayout[]): Table {
  return createTable(
    layouts.map(({ rank, name, family, reason, ...numbers }) => ({
      rank,
      layout: name,
      family,
      ...numbers,
      reason: reason ?? '',
    })),
  );
}

function quantitiesOf(layouts: readonly RankedLayout[]): Quantities {
  const times = layouts.filter(({ fits }) => fits).map(({ seconds }) => seconds);
  const best = layouts.find(({ rank }) => rank === 1)?.seconds;
  return {
    bestSeconds: quantity(best ?? 0, 's', (s) => `the best layout takes ${s} per iteration`),
    fittingShare: quantity(
      (times.length / layouts.length) * 100,
      '%',
      (share) => `${share} of the layouts fit`,
    ),
    worstOverBest: quantity(
      Math.max(...times, 0) / (best ?? 1),
      '×',
      (times) => `the slowest layout that fits takes ${times} as long as the best`,
    ),
  };
}

/** A layout that a search names. */
interface RankedLayout {
  /** The rank of a winner: 1, 2, …; null for the best layout of a family that lost. */
  readonly rank: number | null;
  readonly name: string;
  readonly family: string;
  readonly seconds: Seconds;
  readonly lowSeconds: Seconds;
  readonly highSeconds: Seconds;
  readonly memoryBytes: Bytes;
  readonly fits: boolean;
  /** The reason why the layout's family lost; null for winners. */
  readonly reason: string | null;
}

/** The units of the picture's axes. */
export interface Scales {
  readonly time: Scaled;
  readonly bytes: Scaled;
  /** The end of the memory axis, in the axis's unit; layouts with more memory are drawn there. */
  readonly most: number;
}

const TEXT = 0.45;
/** The width of a line of text on the narrowest page, in pixels. */
const TEXT_PIXELS = 330;

/** A paragraph of the text beside the picture: lines of markup. */
type Paragraph = readonly string[];

/** Returns the text beside the picture: the winners, and why each other family lost. */
function rankedParagraphs(
  winners: readonly RankedLayout[],
  losers: readonly RankedLayout[],
  scales: Scales,
): Paragraph[] {
  const lines = (text: string, mark: (line: string) => string): string[] =>
    wrapped(text, 11, TEXT_PIXELS).map((line) => mark(safe(line)));
  return [
    ...(winners.length > 0 ? [[soft('best')]] : []),
    ...winners.map((layout) => {
      const [first = '', ...more] = wrapped(`${layout.rank} ${layout.name}`, 11, TEXT_PIXELS).map(safe);
      const name = [strong(first.replace(/^\d+/, (rank) => `<b>${rank}</b>`)), ...more.map(strong)];
      return [...name, soft(numbersOf(layout, scales))];
    }),
    ...(losers.length > 0
      ? [[...(winners.length > 0 ? [''] : []), soft('why the other families lost')]]
      : []),
    ...losers.map((layout) => [
      `${strong(safe(layout.family))} ${soft(safe(numbersOf(layout, scales)))}`,
      ...lines(layout.reason ?? '', soft),
    ]),
  ];
}

const LINE = 13.75;
const PARAGRAPH_GAP = 3.5;

/** Returns the height of the text beside the picture, in pixels. */
function wordsPixels(paragraphs: readonly Paragraph[]): number {
  return paragraphs.reduce((sum, lines) => sum + lines.length * LINE + PARAGRAPH_GAP, 0) + LINE;
}

/** Places the paragraphs right of the picture. */
function rankedWords(paragraphs: readonly Paragraph[], pixels: number): Annotation[] {
  let top = 0;
  return paragraphs.map((lines) => {
    const y = 1 - top / pixels;
    top += lines.length * LINE + PARAGRAPH_GAP;
    return note(TEXT, y, lines.join('<br>'), { ...PAPER, yanchor: 'top', align: 'left' });
  });
}

/** Formats time and memory, as '1.33 s, 53.0 GB'. */
export function numbersOf({ seconds, memoryBytes }: RankedLayout, { time, bytes }: Scales): string {
  return `${inTime(seconds, time)}, ${inUnit(memoryBytes, bytes)}`;
}

/** Formats a time with three digits, so that layouts of nearly the same time differ. */
function inTime(seconds: Seconds, { divisor, unit }: Scaled): string {
  return `${Number((seconds / divisor).toPrecision(3))} ${unit}`;
}

/** Names the winner, or says that nothing fits. */
function rankedFinding(
  { numCandidates, numFitting }: Recommendation,
  layouts: readonly RankedLayout[],
  time: Scaled,
): Title {
  const best = layouts.find(({ rank }) => rank === 1);
  const all = counted(numCandidates, 'layout');
  const inBytes = ({ memoryBytes }: RankedLayout): string => inUnit(memoryBytes, byteScale(memoryBytes));
  if (best === undefined || numFitting === 0) {
    const least = layouts.reduce((a, b) => (b.memoryBytes < a.memoryBytes ? b : a));
    return [`None of ${all} fits; the smallest needs ${inBytes(least)}`];
  }
  const cost = `${inTime(best.seconds, time)} in ${inBytes(best)}`;
  return [
    `${best.name} is best: ${cost}; ${numFitting} of ${all} fit`,
    `${best.name} is best: ${cost}`,
    `The best of ${all} takes ${cost}; ${numFitting.toLocaleString('en-US')} of them fit`,
  ];
}

/** Returns the best layouts of the fastest families that have no winner. */
function familyLosers(layouts: readonly RankedLayout[]): RankedLayout[] {
  const won = new Set(layouts.filter(({ rank }) => rank !== null).map(({ family }) => family));
  return layouts
    .filter(({ family }) => !won.has(family))
    .sort((a, b) => a.seconds - b.seconds)
    .slice(0, MOST_LOSERS);
}

const MOST_LOSERS = 5;
