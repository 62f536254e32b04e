import { VERDICTS, type Verdict } from '../../plan/claims/finding';
import type { ClaimResult } from '../../plan/claims/survey';
import type { Figure } from '../figure';
import { bareRowAxis, log10, logRange, logTicks, rowAxis, rowRange } from '../grammar/axes';
import { safe, strong } from '../grammar/ink';
import { bars, dots, ruleX } from '../grammar/marks';
import { type Fill, hatch, NEUTRAL } from '../grammar/palette';
import { type Panel, plot } from '../grammar/plot';
import type { BarTrace, ScatterTrace } from '../grammar/plotly';
import { fits, textWidth } from '../grammar/text-width';
import { claimRatio, countVerdicts, documentedText, foundText, VERDICT_MARKS } from './claim-words';

const ROW = 62;
const FRAME = { top: 92, right: 12, foot: 30, legend: 'plot' } as const;
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
    pattern: hatch('\\'),
  },
  'not checkable here': {
    color: '#C9CED3',
    pattern: hatch('x'),
  },
};

/** Many claims: how many of each document hold, and each number's ratio as a dot. */
export function claimsByDocument(
  results: readonly ClaimResult[],
): Pick<Figure, 'subtitle' | 'data' | 'layout'> {
  const names = [...new Set(results.map(({ claim }) => claim.document))];
  const groups = names.map((name) => results.filter(({ claim }) => claim.document === name));
  const left = 14 + 1.1 * Math.max(...names.map((name) => textWidth(name, 11)));
  const limited = results.flatMap((one) => limitedRatio(one) ?? []);
  const range = logRange([...limited, 0.8, 1.25], 0.06);
  const counts: Panel = {
    heading: 'How many',
    x: { domain: COUNTS, range: [0, Math.max(...groups.map(({ length }) => length)) * 1.02] },
    y: rowAxis(names.map((name) => strong(safe(name)))),
    data: countBars(groups),
  };
  const rows = rowRange(names.length);
  const ratios: Panel = {
    heading: 'How far off',
    x: { domain: DOTS, range, ...logTicks(10 ** range[0], 10 ** range[1], (value) => `${value}×`, 5) },
    y: bareRowAxis(rows),
    data: ratioDots(groups, range),
    shapes: [ruleX(0, rows, { width: 1, color: NEUTRAL })],
  };
  return {
    subtitle: 'Claims by document and verdict; right: documented ÷ found, where both are numbers.',
    ...plot({ ...FRAME, left, pixels: names.length * ROW }, [counts, ratios]),
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
    const items = values.map((length, row) => {
      const text = fits(String(length), 10, length * perClaim) ? String(length) : '';
      return { at: row, length, from: before[row] ?? 0, text };
    });
    return [bars(items, { name: verdict, fill, width: 0.5, hover: `${verdict}: %{x}<extra></extra>` })];
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
    const { symbol, color } = VERDICT_MARKS[verdict];
    const outline = symbol.endsWith('open') ? { line: { width: 1.6, color } } : {};
    const items = shown.map(({ one, x, y }) => ({ x, y, text: hoverOf(one) }));
    return dots(items, { size: DOT, color, symbol, ...outline }, { showlegend: false });
  });
}

interface PlacedClaim {
  readonly one: ClaimResult;
  readonly x: number;
  readonly y: number;
}

function swarm(group: readonly ClaimResult[], row: number, perPixel: number): PlacedClaim[] {
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
