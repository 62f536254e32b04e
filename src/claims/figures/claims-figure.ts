import { listed } from '../../core';
import {
  type Annotation,
  axes,
  counted,
  createFigure,
  type Figure,
  type Fill,
  ink,
  marks,
  palette,
  plot,
  type Quantities,
  type ScatterTrace,
  type Shape,
  type Title,
} from '../../figures';
import type { Estimate } from '../../planner';
import { VERDICTS, type Verdict } from '../finding';
import type { ClaimResult } from '../survey';
import {
  claimsTable,
  countVerdicts,
  documentedText,
  documentTitles,
  estimateText,
  foundText,
  isSameUnit,
  plainText,
  VERDICT_MARKS,
  verdictText,
} from './claim-words';
import { claimsByDocument } from './claims-by-document';

/** If there are more claims than this, a row shows a document, not a claim. */
const MOST_ROWS = 20;
const FRAME = { top: 108, right: 10, left: 10, foot: 12, legend: 'plot' } as const;
/** Where the columns begin, as shares of the plot's width, and their widths in pixels on the narrowest page (700 pixels). */
const COLUMNS = { statement: 0.008, bars: 0.3, verdict: 0.63 } as const;
const WIDTHS = { statement: 186, bars: 210, verdict: 238 } as const;
const LINE = 13.75;
/** The height of a bar and of the space for it, in pixels. */
const [BAR, STEP] = [9, 14] as const;
/** A bar longer than this number of documented values ends there, with an arrow. */
const MOST = 2.2;
/** The end of the axis: behind the longest bar there is room for a number. */
const AXIS_END = 4;

const FILLS = {
  documented: palette.NEUTRAL_FILL,
  predicted: { color: palette.LINE_COLORS[0] },
  measured: { color: palette.LINE_COLORS[2] },
} as const satisfies Record<string, Fill>;

/**
 * Draws one row per claim: what the document states, bars of the documented, the predicted and the measured number, and the
 * verdict with the reading under which the document is right. The documented bars have the same length in all rows. If there are
 * many claims, draws one row per document.
 */
export function claimsFigure(results: readonly ClaimResult[]): Figure {
  const parts = {
    title: claimsTitle(results),
    quantities: claimQuantities(results),
    table: claimsTable(results),
  };
  if (results.length > MOST_ROWS) return createFigure({ ...parts, ...claimsByDocument(results) });
  const rows = rowsOf(results);
  const pixels = Math.max(STEP, ...rows.map(({ bottom }) => bottom));
  const items = rows.flatMap((row) => row.items);
  const isBarred = items.some(({ length }) => length !== undefined);
  const low = Math.min(0, ...items.flatMap(({ length = 0, ends }) => [length, ...ends]));
  return createFigure({
    ...parts,
    subtitle: `From: ${ink.safe(listed(documentTitles(results)))}.<br>${
      isBarred
        ? 'Bars of a row have one scale; the documented bars of all rows are equally long.'
        : 'Statements without a number to compare; each was checked by a run, a dry run, a formula or a prediction.'
    }${legendOf(results, items)}`,
    ...plot({ ...FRAME, pixels }, [
      {
        x: {
          domain: [COLUMNS.bars, COLUMNS.verdict - 0.02],
          range: [low, AXIS_END],
          tickvals: [],
          showgrid: false,
          ...(isBarred ? { zeroline: true, zerolinecolor: palette.NEUTRAL } : {}),
        },
        y: axes.bareRowAxis([pixels, 0]),
        data: [...barsOf(items), ...items.flatMap(intervalOf)],
        annotations: [...headings(pixels), ...rows.flatMap(({ texts }) => texts), ...items.map(textOf)],
        shapes: bands(rows),
      },
    ]),
  });
}

/** Explains the line and the star, where the figure has them. */
function legendOf(results: readonly ClaimResult[], items: readonly Item[]): string {
  const hasInterval = items.some(({ ends }) => ends.length > 0);
  const isJudged = results.some(({ finding }) => finding.judged !== undefined);
  const line = hasInterval ? ' Line: the prediction’s interval.' : '';
  return `${line}${isJudged ? ' *: judged on words.' : ''}`;
}

type Source = keyof typeof FILLS;

/** A number at the height `at`, with its bar; lengths are shares of the documented number. */
interface Item {
  readonly source: Source;
  readonly at: number;
  /** The bar's length; undefined if the number has no bar. */
  readonly length: number | undefined;
  /** The ends of the prediction's interval; empty without an interval. */
  readonly ends: readonly number[];
  /** Where the number's text begins. */
  readonly end: number;
  readonly lines: readonly string[];
  readonly hover: string;
}

/** Lays out the claims below each other; each row is as high as its highest column. */
function rowsOf(results: readonly ClaimResult[]) {
  let top = 0;
  return results.map((result) => {
    const { claim, finding } = result;
    const name = ink.wrapped(claim.id, 11, WIDTHS.statement);
    const statement = ink.wrapped(claim.statement, 11, WIDTHS.statement);
    const verdict = ink.wrapped(
      `${verdictText(finding)}${finding.judged === undefined ? '' : '*'}`,
      11,
      WIDTHS.verdict,
    );
    const numbers = numbersOf(result);
    const stack = STEP * numbers.reduce((sum, { lines }) => sum + lines.length, 0);
    const texts = LINE * Math.max(name.length + statement.length, verdict.length);
    const row = {
      top,
      middle: top + Math.max(stack, texts) / 2 + 4,
      bottom: top + Math.max(stack, texts) + 8,
    };
    top = row.bottom;
    let at = row.middle - stack / 2;
    const items = numbers.map((number): Item => {
      const room = STEP * number.lines.length;
      at += room;
      return { ...number, at: at - room / 2 };
    });
    const { symbol, color } = VERDICT_MARKS[finding.verdict];
    const sign = `<span style="color:${color}">${GLYPHS[symbol] ?? ''}</span> `;
    return {
      ...row,
      items,
      texts: [
        cell(COLUMNS.statement, row.middle, `${markup(name, ink.strong)}<br>${markup(statement, ink.soft)}`),
        cell(COLUMNS.verdict, row.middle, `${sign}${markup(verdict, ink.soft)}`),
      ],
    };
  });
}

function markup(lines: readonly string[], paint: (text: string) => string): string {
  return lines.map((text) => paint(ink.safe(text))).join('<br>');
}

/** Returns a claim's numbers. A number in another unit than the documented number has no bar. */
function numbersOf({ claim, finding }: ClaimResult): Omit<Item, 'at'>[] {
  const { documented } = claim;
  const { predicted, measured, unit } = finding;
  const whole = documented === null || typeof documented === 'number' ? documented : documented[1];
  const isDrawn = whole !== null && whole !== 0 && isSameUnit(claim.unit, unit);
  const of = (source: Source, said: string, { value, low, high }: Estimate, hasBar = isDrawn) => {
    const [length, ...ends] = (hasBar ? [value, low, high] : []).map((bound) => bound / (whole ?? 1));
    const limited = (share: number): number => Math.max(-1, Math.min(MOST, share));
    const end = Math.max(0, ...[length ?? 0, ...ends].map(limited));
    const arrow = length === undefined || limited(length) === length ? '' : length > 0 ? '→ ' : '← ';
    const text = `${arrow}${plainText(said)}`;
    return {
      source,
      length: length === undefined ? undefined : limited(length),
      ends: low < high ? ends.map(limited) : [],
      end,
      lines: ink.wrapped(text, 11, (WIDTHS.bars * (AXIS_END - end)) / (AXIS_END + 1)),
      hover: `<b>${ink.safe(claim.id)}</b><br>${source} ${said}`,
    };
  };
  const exactly = (value: number): Estimate => ({ value, low: value, high: value });
  const estimate = typeof predicted === 'number' ? exactly(predicted) : predicted;
  return [
    ...(whole === null ? [] : [of('documented', documentedText(claim), exactly(whole), whole !== 0)]),
    ...(estimate === undefined ? [] : [of('predicted', estimateText(estimate, unit), estimate)]),
    ...(measured === undefined ? [] : [of('measured', foundText(finding), exactly(measured))]),
  ];
}

function barsOf(items: readonly Item[]) {
  return Object.entries(FILLS).flatMap(([name, fill]) => {
    const own = items.flatMap(({ source, at, length, hover }) =>
      source === name && length !== undefined ? [{ at, length, said: hover }] : [],
    );
    return own.length === 0
      ? []
      : [marks.bars(own, { name, fill, width: BAR, hover: '%{customdata}<extra></extra>' })];
  });
}

function intervalOf({ ends, at }: Item): ScatterTrace[] {
  return ends.length === 0
    ? []
    : [marks.line({ x: ends, y: [at, at] }, { width: 2, color: palette.NEUTRAL }, marks.SILENT)];
}

function textOf({ end, at, lines }: Item): Annotation {
  return marks.note(end, at, markup(lines, ink.strong), { xshift: 3, align: 'left' });
}

/** The signs in front of a verdict. */
const GLYPHS: Readonly<Record<string, string>> = {
  circle: '●',
  square: '■',
  'triangle-up': '▲',
  x: '×',
  diamond: '◆',
  'diamond-open': '◇',
  'circle-open': '○',
};

function cell(x: number, y: number, text: string): Annotation {
  return marks.note(x, y, text, { xref: 'paper', align: 'left' });
}

function headings(pixels: number): Annotation[] {
  const y = { yref: 'paper', y: 1 + 4 / pixels, yanchor: 'bottom' } as const;
  const head = (x: number, text: string): Annotation => ({ ...cell(x, 0, ink.soft(text)), ...y });
  return [
    head(COLUMNS.statement, 'claim'),
    head(COLUMNS.bars, 'documented, and found here'),
    head(COLUMNS.verdict, 'right under which reading; verdict'),
  ];
}

/** Tints every second row, so that a reader can follow a row from left to right. */
function bands(rows: readonly { readonly top: number; readonly bottom: number }[]): Shape[] {
  return rows
    .filter((_, i) => i % 2 === 0)
    .map(({ top, bottom }) => ({
      type: 'rect',
      xref: 'paper',
      x0: 0,
      x1: 1,
      y0: top,
      y1: bottom,
      fillcolor: 'rgba(128,128,128,.09)',
      line: { width: 0 },
      layer: 'below',
    }));
}

function claimsTitle(results: readonly ClaimResult[]): Title {
  if (results.length === 0) return 'There are no claims to show';
  const counts = countVerdicts(results);
  const say = (verdict: Verdict): string => {
    const { plural, singular } = VERDICT_MARKS[verdict];
    return `${counts[verdict]} ${counts[verdict] === 1 ? singular : plural}`;
  };
  const present = VERDICTS.filter((verdict) => counts[verdict] > 0);
  const all = counted(results.length, 'claim');
  const sum = (...verdicts: readonly Verdict[]): number =>
    verdicts.reduce((total, verdict) => total + counts[verdict], 0);
  const number = (count: number, singular: string, many: string): string[] =>
    count === 0 ? [] : [`${count} ${count === 1 ? singular : many}`];
  const short = [
    say('holds'),
    ...number(sum('holds partly', 'holds only if'), 'in part', 'in part'),
    ...number(sum('off', 'contradicts itself'), 'does not', 'do not'),
    ...number(sum('undefined', 'open'), 'is undecided', 'are undecided'),
  ];
  return [`Of ${all}, ${listed(present.map(say))}`, `Of ${all}, ${listed(short)}`];
}

function claimQuantities(results: readonly ClaimResult[]): Quantities {
  const counts = countVerdicts(results);
  const percents = results.filter(({ claim }) => claim.unit === '%');
  const kept = countVerdicts(percents).holds;
  const quantity = (value: number, says: (count: string) => string) => ({ value, unit: '', says });
  const of = (verdict: Verdict) =>
    quantity(counts[verdict], (count) => `${count} claims ${VERDICT_MARKS[verdict].plural}`);
  return {
    holds: quantity(counts.holds, (count) => `${count} of ${results.length} claims hold`),
    partly: of('holds partly'),
    onlyIf: of('holds only if'),
    off: of('off'),
    contradictions: of('contradicts itself'),
    undefined: of('undefined'),
    open: of('open'),
    percentsHold: quantity(kept, (count) => `${count} of the ${percents.length} percentages hold`),
  };
}
