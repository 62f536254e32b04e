import { type Finding, VERDICTS, type Verdict } from '../../plan/claims/finding';
import type { ClaimResult } from '../../plan/claims/survey';
import { createFigure, type Figure, type Quantities, titleOf } from '../figure';
import { counted, listed } from '../format';
import { log10, logRange, logTicks, rowAxis, rowRange } from '../grammar/axes';
import { safe, soft, strong } from '../grammar/ink';
import { line, note, ruleX, SILENT } from '../grammar/marks';
import { NEUTRAL } from '../grammar/palette';
import { plot } from '../grammar/plot';
import type { Annotation, ScatterTrace, Shape } from '../grammar/plotly';
import { textWidth, wrappedMarkup } from '../grammar/text-width';
import {
  claimRatio,
  claimRatioRange,
  claimsTable,
  countVerdicts,
  documentedText,
  foundText,
  limitRatio,
  VERDICT_MARKS,
  verdictDots,
} from './claim-words';
import { claimsByDocument } from './claims-by-document';

/** If there are more claims than this, a row shows a document, not a claim. */
const MOST_ROWS = 20;
const ROW = 20;
const FRAME = { top: 92, right: 10, foot: 30, legend: 'plot' } as const;
/** Where the dots and the text columns are, as shares of the plot's width. */
const DOTS = [0, 0.34] as const;
const COLUMNS = { documented: 0.37, found: 0.55, verdict: 0.77 } as const;

/**
 * Draws one row per claim: a dot at documented ÷ found on a logarithmic axis, then the claim's texts. The dot's shape shows the
 * verdict. If no claim has a ratio, the statements are in place of the dots. If there are many claims, draws one row per
 * document.
 */
export function claimsFigure(results: readonly ClaimResult[]): Figure {
  const parts = {
    title: claimsTitle(results),
    quantities: claimQuantities(results),
    table: claimsTable(results),
  };
  if (results.length > MOST_ROWS) return createFigure({ ...parts, ...claimsByDocument(results) });
  const axis = ratioAxis(results);
  const rows = Math.max(1, results.length);
  const left = Math.min(176, 14 + 1.1 * Math.max(70, ...results.map(({ claim }) => textWidth(claim.id, 11))));
  const ids = results.map(({ claim }) =>
    wrappedMarkup(claim.id, 11, left - 14, (line) => strong(safe(line))),
  );
  const hasDots = results.length === 0 || results.some((one) => claimRatio(one) !== null);
  const texts = results.flatMap((one, row) => [...firstTexts(one, row, hasDots), ...rowTexts(one, row)]);
  const numLines = Math.max(
    1,
    ...[...ids, ...texts.map(({ text }) => text)].map((text) => text.split('<br>').length),
  );
  const pixels = rows * Math.max(ROW, numLines * 13.75 + 6);
  return createFigure({
    ...parts,
    subtitle: hasDots
      ? 'Documented value ÷ value found here (run, dry run, formula, prediction); grey: the prediction’s interval; *: judged on words.'
      : 'Statements without a number to compare; each was checked by a run, a dry run, a formula or a prediction.',
    ...plot({ ...FRAME, left, pixels }, [
      {
        x: { domain: DOTS, range: axis.range, ...(hasDots ? axis.ticks : { tickvals: [], showgrid: false }) },
        y: rowAxis(ids, rowRange(rows)),
        data: results.length === 0 ? [] : marksOf(results, axis),
        annotations: [...headings(pixels, hasDots), ...texts],
        shapes: [
          ...bands(rows),
          ...(hasDots ? [ruleX(0, rowRange(rows), { width: 1, color: NEUTRAL })] : []),
        ],
      },
    ]),
  });
}

/** A logarithmic axis from the smallest to the largest ratio; it always includes 1. */
interface RatioAxis {
  readonly range: readonly [number, number];
  readonly ticks: ReturnType<typeof logTicks>;
  at(ratio: number): number;
}

function ratioAxis(results: readonly ClaimResult[]): RatioAxis {
  const ratios = results.flatMap((one) => claimRatio(one) ?? []).map(limitRatio);
  const range = logRange([...ratios, 0.8, 1.25], 0.08);
  const ticks = logTicks(10 ** range[0], 10 ** range[1], (value) => `${value}×`, 5);
  const at = (ratio: number): number => Math.min(range[1], Math.max(range[0], log10(limitRatio(ratio))));
  return { range, ticks, at };
}

function marksOf(results: readonly ClaimResult[], axis: RatioAxis): ScatterTrace[] {
  const items = results.flatMap((one, y) => {
    const ratio = claimRatio(one);
    if (ratio === null) return [];
    return [{ x: axis.at(ratio), y, text: hover(one, ratio), verdict: one.finding.verdict }];
  });
  const lines = results.flatMap((one, i) => errorLines(one, i, axis));
  return [...lines, ...verdictDots(items, 10, (verdict) => ({ name: soft(verdict) }))];
}

/** Draws the error as a line from ratio 1 to the dot, and the prediction's interval as a broad line behind this line. */
function errorLines(one: ClaimResult, row: number, axis: RatioAxis): ScatterTrace[] {
  const ratio = claimRatio(one);
  if (ratio === null) return [];
  const range = claimRatioRange(one);
  const along = (x: readonly number[], color: string, width: number): ScatterTrace =>
    line({ x, y: x.map(() => row) }, { width, color }, SILENT);
  return [
    ...(range === null ? [] : [along(range.map(axis.at), 'rgba(128,128,128,.35)', 7)]),
    along([0, axis.at(ratio)], VERDICT_MARKS[one.finding.verdict].color, 2),
  ];
}

function hover({ claim, finding }: ClaimResult, ratio: number): string {
  const numbers = `documented ${documentedText(claim)}, found ${foundText(finding)}: ${Number(ratio.toPrecision(3))}×`;
  return `<b>${safe(claim.id)}</b><br>${safe(claim.statement)}<br>${numbers}<br>${safe(finding.why)}`;
}

/** Widths of the text columns, in pixels, on the narrowest page; the figure has 700 pixels there, and its plot about 520. */
const WIDTHS = { statement: 262, documented: 92, found: 112, verdict: 126 } as const;

/** Returns the texts of the first column: the documented value beside the dot; in a figure without dots, the statement. */
function firstTexts({ claim }: ClaimResult, row: number, hasDots: boolean): Annotation[] {
  const [at, text, width] = hasDots
    ? ([COLUMNS.documented, documentedText(claim) || '—', WIDTHS.documented] as const)
    : ([0.008, claim.statement, WIDTHS.statement] as const);
  const inked = (line: string): string => (hasDots ? strong(line) : soft(safe(line)));
  return [cell(at, row, wrappedMarkup(text, 11, width, inked))];
}

function rowTexts(one: ClaimResult, row: number): Annotation[] {
  const { finding } = one;
  const { symbol, color } = VERDICT_MARKS[finding.verdict];
  const sign = claimRatio(one) === null ? `<span style="color:${color}">${GLYPHS[symbol] ?? ''}</span> ` : '';
  const verdict = shortVerdict(finding);
  return [
    cell(COLUMNS.found, row, wrappedMarkup(foundText(finding) || '—', 11, WIDTHS.found, strong)),
    cell(
      COLUMNS.verdict,
      row,
      `${sign}${wrappedMarkup(verdict, 11, WIDTHS.verdict, (line) => soft(safe(line)))}`,
    ),
  ];
}

/** Returns a verdict in a few words: how wrong the claim is, or on which condition it holds; '*' marks a judgement on words. */
function shortVerdict(finding: Finding): string {
  const { verdict, by, judged } = finding;
  const more = verdict === 'holds only if' ? `only if ${finding.condition}` : verdict;
  const words = verdict === 'off' && by !== '' ? by : more;
  return judged !== undefined ? `${words}*` : words;
}

/** The signs that are in front of a verdict if the claim has no ratio, and therefore no dot. */
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
  return note(x, y, text, { xref: 'paper', align: 'left' });
}

function headings(pixels: number, hasDots: boolean): Annotation[] {
  const y = { yref: 'paper', y: 1 + 4 / pixels, yanchor: 'bottom' } as const;
  const head = (x: number, text: string): Annotation => ({ ...cell(x, 0, soft(text)), ...y });
  return [
    ...(hasDots
      ? [head(0, 'documented ÷ found'), head(COLUMNS.documented, 'documented')]
      : [head(0.008, 'statement')]),
    head(COLUMNS.found, 'found here'),
    head(COLUMNS.verdict, 'verdict'),
  ];
}

/** Tints every second row, so that a reader can follow a row from left to right. */
function bands(rows: number): Shape[] {
  return Array.from({ length: Math.ceil(rows / 2) }, (_, i) => ({
    type: 'rect',
    xref: 'paper',
    x0: 0,
    x1: 1,
    y0: 2 * i - 0.5,
    y1: 2 * i + 0.5,
    fillcolor: 'rgba(128,128,128,.09)',
    line: { width: 0 },
    layer: 'below',
  }));
}

function claimsTitle(results: readonly ClaimResult[]): string {
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
  const number = (count: number, one: string, many: string): string[] =>
    count === 0 ? [] : [`${count} ${count === 1 ? one : many}`];
  const short = [
    say('holds'),
    ...number(sum('holds partly', 'holds only if'), 'in part', 'in part'),
    ...number(sum('off', 'contradicts itself'), 'does not', 'do not'),
    ...number(sum('undefined', 'open'), 'is undecided', 'are undecided'),
  ];
  return titleOf(`Of ${all}, ${listed(present.map(say))}`, `Of ${all}, ${listed(short)}`);
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
