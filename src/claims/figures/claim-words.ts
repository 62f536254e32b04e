import {
  type Column,
  createTable,
  ink,
  type MarkerSymbol,
  marks,
  type ScatterTrace,
  type Table,
} from '../../figures';
import type { Estimate } from '../../planner';
import { type Claim, DOCUMENTS, type DocumentName } from '../claim';
import { detailOf, type Finding, numberOf, VERDICTS, type Verdict } from '../finding';
import type { ClaimResult } from '../survey';

const [TRUE, FALSE, UNKNOWN] = ['#2362AC', '#B3401A', '#6b6b6b'] as const;

/**
 * Says, for each verdict, how its dot looks (verdicts of one colour differ in shape), and which words follow a count ("3
 * hold").
 */
export const VERDICT_MARKS = {
  holds: { symbol: 'circle', color: TRUE, plural: 'hold', singular: 'holds' },
  'holds partly': { symbol: 'square', color: TRUE, plural: 'hold partly', singular: 'holds partly' },
  'holds only if': {
    symbol: 'triangle-up',
    color: TRUE,
    plural: 'hold under a condition',
    singular: 'holds under a condition',
  },
  off: { symbol: 'x', color: FALSE, plural: 'are off', singular: 'is off' },
  'contradicts itself': {
    symbol: 'diamond-open',
    color: FALSE,
    plural: 'contradict themselves',
    singular: 'contradicts itself',
  },
  undefined: { symbol: 'diamond', color: UNKNOWN, plural: 'are undefined', singular: 'is undefined' },
  open: { symbol: 'circle-open', color: UNKNOWN, plural: 'are open', singular: 'is open' },
} as const satisfies Record<Verdict, { readonly symbol: MarkerSymbol; readonly [word: string]: string }>;

/**
 * Returns the documented number ÷ the found number; null if a number is missing or zero, or if the numbers differ in sign or
 * unit.
 */
export function claimRatio({ claim, finding }: ClaimResult): number | null {
  if (!isSameUnit(claim.unit, finding.unit)) return null;
  return ratio(claim.documented, numberOf(finding));
}

/** Returns whether both units are equal, or the found unit ('GB per card') begins with the document's unit ('GB'). */
export function isSameUnit(documented: string | null, foundUnit: string | null): boolean {
  return (
    documented === foundUnit || (documented !== null && foundUnit?.startsWith(`${documented} `) === true)
  );
}

function ratio(documented: Claim['documented'], foundNumber: number | null): number | null {
  if (documented === null || foundNumber === null) return null;
  const stated = typeof documented === 'number' ? documented : nearestEnd(documented, foundNumber);
  const quotient = stated / foundNumber;
  return Number.isFinite(quotient) && quotient > 0 ? quotient : null;
}

/** Returns the number within a documented range that is nearest to the found number. */
function nearestEnd([low, high]: readonly [number, number], foundNumber: number): number {
  return Math.min(high, Math.max(low, foundNumber));
}

const RELATIONS = { '>': '&gt; ', '>=': '≥ ', '<': '&lt; ', 'up to': 'up to ' } as const;

/** Formats a claim's number, as '≥ 85%', '12.8 GB', '10–20 min'; '' if the claim states no number. */
export function documentedText({ documented, unit, relation }: Claim): string {
  if (documented === null) return '';
  const bound = relation === undefined ? '' : RELATIONS[relation];
  if (typeof documented === 'number') return `${bound}${withUnit(documented, unit)}`;
  const [low, high] = documented;
  return `${bound}${quantity(low)}–${withUnit(high, unit)}`;
}

/** Formats the number that was found, as '7.15 GB', '0.9–1.1 ×'; '' if no number was found. */
export function foundText({ predicted, measured, unit }: Finding): string {
  if (measured !== undefined) return withUnit(measured, unit);
  if (predicted === undefined) return '';
  if (typeof predicted === 'number') return withUnit(predicted, unit);
  return estimateText(predicted, unit);
}

export function estimateText({ value, low, high }: Estimate, unit: string | null): string {
  if (low === high) return withUnit(value, unit);
  return `${quantity(low)}${low < 0 ? ' to ' : '–'}${withUnit(high, unit)}`;
}

const LARGE = [
  [1e12, 'T'],
  [1e9, 'B'],
  [1e6, 'M'],
] as const;

/** Short forms of units whose long forms are too wide for the column. */
const SHORT_UNITS: Readonly<Record<string, string>> = { x: '×', 'bytes/parameter': 'B/parameter' };

/** Formats a number with three digits; from a million on, as millions (M), billions (B) or trillions (T). */
function quantity(value: number): string {
  const size = Math.abs(value);
  const [divisor, letter] = LARGE.find(([from]) => size >= from) ?? [1, ''];
  return `${Number((value / divisor).toPrecision(3))}${letter}`.replace('-', '−');
}

function withUnit(value: number, unit: string | null): string {
  if (unit === null || unit === '') return quantity(value);
  if (unit === '%') return `${quantity(value)}%`;
  return `${quantity(value)} ${SHORT_UNITS[unit] ?? unit}`;
}

/** Says first under which reading a statement is right, then the verdict: 'holds only if …; off: 1.46 x too low'. */
export function verdictText(finding: Finding): string {
  const { verdict, reading } = finding;
  if (verdict === 'holds only if') return reading;
  const detail = detailOf(finding);
  return `${reading === '' ? '' : `${reading}; `}${verdict}${detail === '' ? '' : `: ${detail}`}`;
}

/** Returns the number of claims per verdict, in the order of VERDICTS. */
export function countVerdicts(results: readonly ClaimResult[]): Readonly<Record<Verdict, number>> {
  const counts = VERDICTS.map((verdict) => [
    verdict,
    results.filter(({ finding }) => finding.verdict === verdict).length,
  ]);
  return Object.fromEntries(counts) as Record<Verdict, number>; // one count per verdict
}

/** Ratios above this number, or below its reciprocal, are drawn at the axis's end. */
const MOST_RATIO = 12;

/** Moves a ratio that is outside of the axis to the axis's nearer end. */
export function limitRatio(ratio: number): number {
  return Math.min(MOST_RATIO, Math.max(1 / MOST_RATIO, ratio));
}

/** Draws claims as dots: one trace per verdict, in the verdict's shape and colour. */
export function verdictDots(
  items: readonly {
    readonly x: number;
    readonly y: number;
    readonly text: string;
    readonly verdict: Verdict;
  }[],
  size: number,
  more: (verdict: Verdict) => Partial<ScatterTrace>,
): ScatterTrace[] {
  return VERDICTS.flatMap((verdict) => {
    const { symbol, color } = VERDICT_MARKS[verdict];
    const outline = symbol.endsWith('open') ? { line: { width: size / 5, color } } : {};
    const own = items.filter((item) => item.verdict === verdict);
    return marks.dots(own, { size, color, symbol, ...outline }, more(verdict));
  });
}

/** Returns a document's title; claims of the user have the document 'own'. */
export function documentTitle(document: string): string {
  return Object.hasOwn(DOCUMENTS, document) ? DOCUMENTS[document as DocumentName] : 'your own claims';
}

/** Returns the titles of the documents of claims, in their order. */
export function documentTitles(results: readonly ClaimResult[]): string[] {
  return [...new Set(results.map(({ claim }) => documentTitle(claim.document)))];
}

/** The columns that are only in CSV and DataFrames. */
const ONLY_DATA = [
  'value',
  'ratio',
  'reading',
  'by',
  'detail',
  'judged',
  'follows',
  'evidence',
  'document',
  'needs',
];

/** The columns of a table of claims: what a reader reads first, then the numbers and the id. */
const COLUMNS: readonly Column[] = [
  ...['statement', 'verdict', 'why', 'documented', 'found', 'id'].map((key) => ({ key, wraps: true })),
  ...ONLY_DATA.map((key) => ({ key, isOnlyData: true })),
];

/** Makes a table of claims: one row per claim with the statement, the verdict and its reason, then both numbers. */
export function claimsTable(results: readonly ClaimResult[]): Table {
  const rows = results.map((result) => {
    const { claim, finding } = result;
    return {
      id: claim.id,
      documented: plainText(documentedText(claim)),
      found: plainText(foundText(finding)),
      value: numberOf(finding),
      ratio: claimRatio(result),
      reading: finding.reading,
      verdict: finding.verdict,
      by: finding.by,
      detail: detailOf(finding),
      judged: finding.judged !== undefined ? 'judged' : '',
      follows: finding.follows ?? '',
      why: finding.why,
      statement: claim.statement,
      evidence: finding.evidence.kind,
      document: claim.document,
      needs: finding.verdict === 'open' ? finding.needs : '',
    };
  });
  if (rows.length === 0) return createTable(rows, { title: 'No claim meets these conditions' });
  return createTable(rows, { title: documentTitles(results).join('; '), columns: COLUMNS });
}

/** Removes the markup of figures from the text of a number. */
export function plainText(markup: string): string {
  return ink.plain(markup).replaceAll('&gt;', '>').replaceAll('&lt;', '<');
}
