import {
  axes,
  type BarTrace,
  type Figure,
  type Fill,
  ink,
  marks,
  type Panel,
  palette,
  plot,
  type ScatterTrace,
} from '../../figures';
import { VERDICTS, type Verdict } from '../finding';
import type { ClaimResult } from '../survey';
import {
  claimRatio,
  countVerdicts,
  documentedText,
  documentTitle,
  foundText,
  limitRatio,
  verdictDots,
} from './claim-words';

const ROW = 62;
const FRAME = { top: 92, right: 12, foot: 30, legend: 'plot' } as const;
const COUNTS = [0, 0.44] as const;
const DOTS = [0.5, 1] as const;
/** The diameter of a dot, in pixels. */
const DOT = 8;
const DOTS_PIXELS = 300;
const COUNTS_PIXELS = 260;
/** The widest line of a document's title, in pixels. */
const NAME_PIXELS = 150;

/**
 * The bars' fills: blue for claims that hold, red for wrong claims, grey for the other claims. A lighter or hatched fill means
 * that only a part of the claim holds or is wrong.
 */
const VERDICT_FILL: Readonly<Record<Verdict, Fill>> = {
  holds: { color: '#2362AC' },
  'holds partly': { color: '#7FA8DC' },
  'holds only if': { color: '#C3D6EF', pattern: palette.hatch('/') },
  off: { color: '#B3401A' },
  'contradicts itself': { color: '#F5A985', pattern: palette.hatch('\\') },
  undefined: { color: '#8A9299' },
  open: { color: '#C9CED3', pattern: palette.hatch('x') },
};

/** Draws many claims, one row per document: how many claims have each verdict, and each claim's ratio as a dot. */
export function claimsByDocument(
  results: readonly ClaimResult[],
): Pick<Figure, 'subtitle' | 'data' | 'layout'> {
  const names = [...new Set(results.map(({ claim }) => claim.document))];
  const groups = names.map((name) => results.filter(({ claim }) => claim.document === name));
  const titles = names.map((name) => ink.nameLines(documentTitle(name), NAME_PIXELS));
  const lines = titles.flatMap((title) => title.split('<br>'));
  const left = 14 + 1.1 * Math.max(...lines.map((line) => ink.textWidth(line, 11)));
  const limited = results.flatMap((result) => limitedRatio(result) ?? []);
  const range = axes.logRange([...limited, 0.8, 1.25], 0.06);
  const counts: Panel = {
    heading: 'How many',
    x: { domain: COUNTS, range: [0, Math.max(...groups.map(({ length }) => length)) * 1.02] },
    y: axes.rowAxis(titles),
    data: countBars(groups),
  };
  const rows = axes.rowRange(names.length);
  const ratios: Panel = {
    heading: 'How far off',
    x: { domain: DOTS, range, ...axes.logTicks(10 ** range[0], 10 ** range[1], (value) => `${value}×`, 5) },
    y: axes.bareRowAxis(rows),
    data: ratioDots(groups, range),
    shapes: [marks.ruleX(0, rows, { width: 1, color: palette.NEUTRAL })],
  };
  return {
    subtitle: 'Claims by document and verdict; at the right: documented ÷ found, if both are numbers.',
    ...plot({ ...FRAME, left, pixels: names.length * ROW }, [counts, ratios]),
  };
}

function limitedRatio(result: ClaimResult): number | null {
  const ratio = claimRatio(result);
  return ratio === null ? null : limitRatio(ratio);
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
      const text = ink.fits(String(length), 10, length * perClaim) ? String(length) : '';
      return { at: row, length, from: before[row] ?? 0, text };
    });
    return [marks.bars(items, { name: verdict, fill, width: 0.5, hover: `${verdict}: %{x}<extra></extra>` })];
  });
}

/** Makes the dots of all rows; dots that would cover each other are moved up or down. */
function ratioDots(
  groups: readonly (readonly ClaimResult[])[],
  range: readonly [number, number],
): ScatterTrace[] {
  const perPixel = (range[1] - range[0]) / DOTS_PIXELS;
  const items = groups.flatMap((group, row) => swarm(group, row, perPixel));
  return verdictDots(items, DOT, () => ({ showlegend: false }));
}

function swarm(group: readonly ClaimResult[], row: number, perPixel: number) {
  const columns = new Map<number, ClaimResult[]>();
  for (const result of group) {
    const ratio = limitedRatio(result);
    if (ratio === null) continue;
    const column = Math.round(axes.log10(ratio) / perPixel / (DOT + 2));
    columns.set(column, [...(columns.get(column) ?? []), result]);
  }
  return [...columns.values()].flatMap((column) =>
    column.map((result, i) => {
      const step = Math.min((DOT + 2) / ROW, 0.8 / column.length);
      const y = row + (i - (column.length - 1) / 2) * step;
      const x = axes.log10(limitedRatio(result) ?? 1);
      return { x, y, text: hoverOf(result), verdict: result.finding.verdict };
    }),
  );
}

function hoverOf({ claim, finding }: ClaimResult): string {
  return `<b>${ink.safe(claim.id)}</b><br>documented ${documentedText(claim)}, found ${foundText(finding)}<br>${ink.safe(finding.why)}`;
}
