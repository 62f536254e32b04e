import { VERDICTS, type Verdict } from '../plan/claims/finding';
import type { ClaimResult } from '../plan/claims/survey';
import { claimRatio, countVerdicts, documentedText, foundText, VERDICT_MARKS } from './claim-words';
import type { FigureParts } from './figure';
import { safe, soft, strong } from './ink';
import { log10, logRange, logTicks } from './log-axis';
import { type Fill, inkOn, NEUTRAL } from './palette';
import { panelHeading } from './panel-heading';
import type { BarTrace, Layout, ScatterTrace } from './plotly';
import { fits, textWidth } from './text-width';

const ROW = 62;
const MARGIN = { t: 92, r: 12, b: 62 };
const COUNTS = [0, 0.44] as const;
const DOTS = [0.5, 1] as const;
/** Pixels between dots of one row that would lie over each other. */
const DOT = 8;
const DOTS_PIXELS = 300;
const COUNTS_PIXELS = 260;
const MOST_RATIO = 12;

/** Bars: a dark hue where it holds, hatched where it cannot be checked here. */
const VERDICT_FILL: Readonly<Record<Verdict, Fill>> = {
  confirmed: { color: '#2362AC' },
  off: { color: '#B3401A' },
  'contradicts itself': {
    color: '#F5A985',
    pattern: { shape: '\\', fgcolor: 'rgba(40,40,40,.55)', size: 6, solidity: 0.18, fillmode: 'overlay' },
  },
  'not checkable here': {
    color: '#C9CED3',
    pattern: { shape: 'x', fgcolor: 'rgba(40,40,40,.55)', size: 6, solidity: 0.18, fillmode: 'overlay' },
  },
};

/** Many claims: how many of each document hold, and each number's ratio as a dot. */
export function claimsByDocument(
  results: readonly ClaimResult[],
): Pick<FigureParts, 'subtitle' | 'data' | 'layout'> {
  const names = [...new Set(results.map(({ claim }) => claim.document))];
  const groups = names.map((name) => results.filter(({ claim }) => claim.document === name));
  const left = 14 + 1.1 * Math.max(...names.map((name) => textWidth(name, 11)));
  const height = names.length * ROW;
  const y = { range: [names.length - 0.5, -0.5], showgrid: false, ticks: '', ticklabelstandoff: 5 } as const;
  const limited = results.flatMap((one) => limitedRatio(one) ?? []);
  const range = logRange([...limited, 0.8, 1.25], 0.06);
  return {
    subtitle: 'Claims by document and verdict; right: documented ÷ found, where both are numbers.',
    data: [...countBars(groups), ...ratioDots(groups, range)],
    layout: {
      height: MARGIN.t + MARGIN.b + height,
      margin: { ...MARGIN, l: left },
      barmode: 'overlay',
      showlegend: true,
      legend: { x: 0, y: -30 / height },
      xaxis: { domain: COUNTS, range: [0, Math.max(...groups.map(({ length }) => length)) * 1.02] },
      yaxis: { ...y, tickvals: names.map((_, i) => i), ticktext: names.map((name) => strong(safe(name))) },
      ...dotAxes(range, y.range),
      annotations: [panelHeading(COUNTS[0], '<b>How many</b>'), panelHeading(DOTS[0], '<b>How far off</b>')],
      shapes: [
        {
          type: 'line',
          xref: 'x2',
          yref: 'y2',
          x0: 0,
          x1: 0,
          y0: names.length - 0.5,
          y1: -0.5,
          line: { width: 1, color: NEUTRAL },
        },
      ],
    },
  };
}

function dotAxes(range: readonly [number, number], rows: readonly [number, number]): Partial<Layout> {
  const ticks = logTicks(10 ** range[0], 10 ** range[1], (value) => `${value}×`, 5);
  return {
    xaxis2: { domain: DOTS, range, ...ticks, anchor: 'y2' },
    yaxis2: { range: rows, showgrid: false, ticks: '', showticklabels: false, tickvals: [], anchor: 'x2' },
  };
}

function limitedRatio(one: ClaimResult): number | null {
  const ratio = claimRatio(one);
  return ratio === null ? null : Math.min(MOST_RATIO, Math.max(1 / MOST_RATIO, ratio));
}

function countBars(groups: readonly (readonly ClaimResult[])[]): BarTrace[] {
  const counts = groups.map(countVerdicts);
  const perClaim = COUNTS_PIXELS / Math.max(...groups.map(({ length }) => length));
  return VERDICTS.flatMap((verdict, order): BarTrace[] => {
    const fill = VERDICT_FILL[verdict];
    const values = counts.map((count) => count[verdict]);
    if (values.every((value) => value === 0)) return [];
    const before = counts.map((count) =>
      VERDICTS.slice(0, order).reduce((sum, earlier) => sum + count[earlier], 0),
    );
    return [
      {
        type: 'bar',
        orientation: 'h',
        name: soft(verdict),
        x: values,
        y: values.map((_, i) => i),
        base: before,
        width: 0.5,
        text: values.map((value) => (fits(String(value), 10, value * perClaim) ? String(value) : '')),
        textposition: 'inside',
        insidetextanchor: 'middle',
        textangle: 0,
        constraintext: 'none',
        textfont: { size: 10, color: inkOn(fill) },
        marker: {
          color: fill.color,
          pattern: fill.pattern ?? { shape: '' },
          line: { width: 0.5, color: NEUTRAL },
        },
        hovertemplate: `${verdict}: %{x}<extra></extra>`,
      },
    ];
  });
}

/** Dots of a row, moved up and down where they would lie over each other. */
function ratioDots(
  groups: readonly (readonly ClaimResult[])[],
  range: readonly [number, number],
): ScatterTrace[] {
  const perPixel = (range[1] - range[0]) / DOTS_PIXELS;
  const placed = groups.flatMap((group, row) => swarm(group, row, perPixel));
  return VERDICTS.flatMap((verdict): ScatterTrace[] => {
    const shown = placed.filter(({ one }) => one.finding.verdict === verdict);
    if (shown.length === 0) return [];
    const { symbol, color } = VERDICT_MARKS[verdict];
    return [
      {
        type: 'scatter',
        mode: 'markers',
        xaxis: 'x2',
        yaxis: 'y2',
        x: shown.map(({ x }) => x),
        y: shown.map(({ y }) => y),
        marker: {
          size: DOT,
          color,
          symbol,
          ...(symbol.endsWith('open') ? { line: { width: 1.6, color } } : {}),
        },
        text: shown.map(({ one }) => hoverOf(one)),
        hovertemplate: '%{text}<extra></extra>',
        showlegend: false,
      },
    ];
  });
}

interface Dot {
  readonly one: ClaimResult;
  readonly x: number;
  readonly y: number;
}

function swarm(group: readonly ClaimResult[], row: number, perPixel: number): Dot[] {
  const columns = new Map<number, ClaimResult[]>();
  for (const one of group) {
    const ratio = limitedRatio(one);
    if (ratio === null) continue;
    const column = Math.round(log10(ratio) / perPixel / (DOT + 2));
    columns.set(column, [...(columns.get(column) ?? []), one]);
  }
  return [...columns.values()].flatMap((column) =>
    column.map((one, i) => {
      const step = Math.min((DOT + 2) / ROW, 0.8 / column.length);
      return { one, x: log10(limitedRatio(one) ?? 1), y: row + (i - (column.length - 1) / 2) * step };
    }),
  );
}

function hoverOf({ claim, finding }: ClaimResult): string {
  return `<b>${safe(claim.id)}</b><br>documented ${documentedText(claim)}, found ${foundText(finding)}<br>${safe(finding.why)}`;
}
