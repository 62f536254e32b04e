import { ConfigError } from '../../core/errors';
import type { Bytes } from '../../core/units';
import { createFigure, type Figure } from '../figure';
import { byteScale, inUnit, timeScale } from '../format';
import { log10, logRange, logTicks, titled } from '../grammar/axes';
import { bold, safe, soft } from '../grammar/ink';
import { dots, line, note, ruleX } from '../grammar/marks';
import { OVER } from '../grammar/palette';
import { plot } from '../grammar/plot';
import type { Annotation, Marker, ScatterTrace } from '../grammar/plotly';
import { createTable, type Table } from '../table';
import {
  familyLosers,
  numbersOf,
  type RankedLayout,
  rankedFinding,
  rankedParagraphs,
  rankedWords,
  type Scales,
  wordsPixels,
} from './ranked-words';

export interface RankedOptions {
  readonly capacityBytes: Bytes;
  readonly subtitle: string;
  /** How many were tried and fit, where `layouts` are only those worth naming. Default: `layouts`. */
  readonly tried?: { readonly count: number; readonly fitting: number };
  /** Rows of text for winners and for losers. Default 5 and 5. */
  readonly winners?: number;
  readonly losers?: number;
}

const FRAME = { top: 86, left: 58, right: 10, foot: 48 } as const;
const DOTS = [0, 0.4] as const;
const LEAST_PIXELS = 250;
const WINNER = '#2362AC';
const LOSER = 'rgba(128,128,128,.55)';

/** Layouts by time and memory: the frontier, the winners by number, the losers grey, and in words why each family lost. */
export function rankedLayouts(layouts: readonly RankedLayout[], options: RankedOptions): Figure {
  if (layouts.length === 0) throw new ConfigError('no layout to rank; a search found none that is legal');
  const winners = layouts
    .filter(({ rank }) => rank !== null)
    .sort((a, b) => (a.rank ?? 0) - (b.rank ?? 0))
    .slice(0, options.winners ?? 5);
  const losers = familyLosers(layouts).slice(0, options.losers ?? 5);
  const time = timeScale(Math.max(...layouts.map(({ seconds }) => seconds.value)));
  const bytes = byteScale(options.capacityBytes);
  const up = logRange(
    layouts.map(({ seconds }) => seconds.value / time.divisor),
    0.08,
  );
  const capacity = options.capacityBytes / bytes.divisor;
  const smallest = Math.min(...layouts.map(({ memoryBytes }) => memoryBytes.value / bytes.divisor));
  const most = Math.min(
    Math.max(capacity, smallest) * 1.6,
    Math.max(capacity * 1.08, ...layouts.map(({ memoryBytes }) => memoryBytes.value / bytes.divisor)),
  );
  const lowest = Math.min(smallest, capacity);
  const least = lowest < most * 0.3 ? 0 : lowest * 0.9;
  const scales = { time, bytes, most };
  const words = rankedParagraphs(winners, losers, scales);
  const pixels = Math.max(LEAST_PIXELS, wordsPixels(words));
  return createFigure({
    title: rankedFinding(layouts, winners, { time, tried: options.tried }),
    subtitle: options.subtitle,
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
          note(
            capacity,
            1,
            soft(`${inUnit(options.capacityBytes, byteScale(options.capacityBytes))} usable`),
            ABOVE,
          ),
          ...numbers(winners, scales),
          ...rankedWords(words, pixels),
        ],
        shapes: [{ ...ruleX(capacity, [0, 1], { width: 1.5, color: OVER, dash: 'dash' }), yref: 'paper' }],
      },
    ]),
    table: tableOf(layouts),
    quantities: quantitiesOf(layouts, winners),
  });
}

const ABOVE = { yref: 'paper', xanchor: 'right', yanchor: 'bottom' } as const;

function xOf({ memoryBytes }: RankedLayout, { bytes, most }: Scales): number {
  return Math.min(most, memoryBytes.value / bytes.divisor);
}

function yOf({ seconds }: RankedLayout, { time }: Scales): number {
  return log10(seconds.value / time.divisor);
}

/** Steps from layout to layout than which no other that fits is both faster and smaller. */
function frontier(layouts: readonly RankedLayout[], scales: Scales): ScatterTrace[] {
  const sorted = layouts
    .filter(({ fits }) => fits)
    .sort((a, b) => a.memoryBytes.value - b.memoryBytes.value || a.seconds.value - b.seconds.value);
  let fastest = Number.POSITIVE_INFINITY;
  const kept = sorted.filter(({ seconds }) => {
    const isFaster = seconds.value < fastest;
    if (isFaster) fastest = seconds.value;
    return isFaster;
  });
  if (kept.length < 2) return [];
  const points = { x: kept.map((one) => xOf(one, scales)), y: kept.map((one) => yOf(one, scales)) };
  return [line(points, { width: 1.4, color: '#3E9C6B', shape: 'hv' }, { hoverinfo: 'skip' })];
}

function layoutDots(
  layouts: readonly RankedLayout[],
  winners: readonly RankedLayout[],
  scales: Scales,
): ScatterTrace[] {
  const of = (shown: readonly RankedLayout[], marker: Marker): ScatterTrace[] =>
    dots(
      shown.map((one) => ({ x: xOf(one, scales), y: yOf(one, scales), text: hover(one, scales) })),
      marker,
    );
  const others = layouts.filter((one) => !winners.includes(one));
  const open = { symbol: 'circle-open', line: { width: 1, color: LOSER } } as const;
  return [
    ...of(
      others.filter(({ fits }) => fits),
      { size: 6, color: LOSER },
    ),
    ...of(
      others.filter(({ fits }) => !fits),
      { size: 6, color: LOSER, ...open },
    ),
    ...of(winners, { size: 9, color: WINNER }),
  ];
}

function hover(one: RankedLayout, scales: Scales): string {
  const why = one.reason === null ? '' : `<br>${safe(one.reason)}`;
  return `<b>${safe(one.name)}</b><br>${numbersOf(one, scales)}${why}`;
}

/** Winners' ranks beside their dots; one beside another that would cover it is left out. */
function numbers(winners: readonly RankedLayout[], scales: Scales): Annotation[] {
  const placed: { readonly x: number; readonly y: number }[] = [];
  return winners.flatMap((one): Annotation[] => {
    const at = { x: xOf(one, scales), y: yOf(one, scales) };
    const isTaken = placed.some(
      ({ x, y }) => Math.abs(x - at.x) < scales.most * 0.05 && Math.abs(y - at.y) < 0.05,
    );
    if (isTaken) return [];
    placed.push(at);
    return [note(at.x, at.y, bold(String(one.rank)), { xanchor: 'right', xshift: -5, yanchor: 'top' })];
  });
}

function tableOf(layouts: readonly RankedLayout[]): Table {
  return createTable(
    layouts.map(({ name, rank, family, seconds, memoryBytes, fits, reason }) => ({
      rank,
      layout: name,
      family,
      seconds: seconds.value,
      lowSeconds: seconds.low,
      highSeconds: seconds.high,
      memoryBytes: memoryBytes.value,
      fits,
      reason: reason ?? '',
    })),
  );
}

function quantitiesOf(layouts: readonly RankedLayout[], winners: readonly RankedLayout[]) {
  const fitting = layouts.filter(({ fits }) => fits).length;
  const worst = Math.max(...layouts.filter(({ fits }) => fits).map(({ seconds }) => seconds.value), 0);
  const best = winners[0]?.seconds.value ?? 1;
  return {
    bestSeconds: {
      value: winners[0]?.seconds.value ?? 0,
      unit: 's',
      says: (s: string) => `the best layout takes ${s} per iteration`,
    },
    fittingShare: {
      value: (fitting / layouts.length) * 100,
      unit: '%',
      says: (share: string) => `${share} of the layouts fit`,
    },
    worstOverBest: {
      value: worst / best,
      unit: '×',
      says: (times: string) => `the slowest layout that fits takes ${times} as long as the best`,
    },
  };
}
