import type { Claim } from '../../plan/claims/claim';
import { type Finding, numberOf, type Verdict } from '../../plan/claims/finding';
import type { ClaimResult } from '../../plan/claims/survey';
import type { Estimate } from '../../plan/prediction';
import type { MarkerSymbol } from '../grammar/plotly';

/** How a verdict is drawn; shapes differ where colours do not. */
export interface VerdictMark {
  readonly symbol: MarkerSymbol;
  readonly color: string;
  /** Behind "k of n": 'hold', 'are off'. */
  readonly plural: string;
  readonly singular: string;
}

/** The four verdicts. */
export const VERDICT_MARKS: Readonly<Record<Verdict, VerdictMark>> = {
  confirmed: { symbol: 'circle', color: '#2362AC', plural: 'hold', singular: 'holds' },
  off: { symbol: 'x', color: '#B3401A', plural: 'are off', singular: 'is off' },
  'contradicts itself': {
    symbol: 'diamond-open',
    color: '#B3401A',
    plural: 'contradict themselves',
    singular: 'contradicts itself',
  },
  'not checkable here': {
    symbol: 'circle-open',
    color: '#6b6b6b',
    plural: 'need other hardware',
    singular: 'needs other hardware',
  },
};

/** Documented ÷ found; null where one of both is missing, zero, of another sign or of another unit. */
export function claimRatio({ claim, finding }: ClaimResult): number | null {
  if (!isSameUnit(claim.unit, finding.unit)) return null;
  return ratio(claim.documented, numberOf(finding));
}

/** The ratio over the prediction's interval, smallest first; null where nothing is predicted with one. */
export function claimRatioRange({ claim, finding }: ClaimResult): readonly [number, number] | null {
  const { predicted, measured } = finding;
  if (measured !== undefined || predicted === undefined || typeof predicted === 'number') return null;
  if (!isSameUnit(claim.unit, finding.unit)) return null;
  const ends = [ratio(claim.documented, predicted.low), ratio(claim.documented, predicted.high)];
  const [low, high] = ends.map((end) => end ?? 0).sort((a, b) => a - b);
  return low === undefined || high === undefined || low <= 0 ? null : [low, high];
}

/** Findings may say more: 'GB a card' where a document says 'GB'. */
function isSameUnit(documented: string | null, found: string | null): boolean {
  return documented === found || (documented !== null && found?.startsWith(`${documented} `) === true);
}

function ratio(documented: Claim['documented'], found: number | null): number | null {
  if (documented === null || found === null) return null;
  const stated = typeof documented === 'number' ? documented : nearestEnd(documented, found);
  const quotient = stated / found;
  return Number.isFinite(quotient) && quotient > 0 ? quotient : null;
}

/** Inside a stated range a number is as stated; outside it is compared with the nearer end. */
function nearestEnd([low, high]: readonly [number, number], found: number): number {
  return Math.min(high, Math.max(low, found));
}

const RELATIONS = { '>': '&gt; ', '>=': '≥ ', '<': '&lt; ', 'up to': 'up to ' } as const;

/** What a document says, as '≥ 85%', '12.8 GB', '10–20 min'; '' where no number is stated. */
export function documentedText({ documented, unit, relation }: Claim): string {
  if (documented === null) return '';
  const bound = relation === undefined ? '' : RELATIONS[relation];
  if (typeof documented === 'number') return `${bound}${withUnit(documented, unit)}`;
  const [low, high] = documented;
  return `${bound}${quantity(low)}–${withUnit(high, unit)}`;
}

/** What was found, as '7.15 GB', '0.9–1.1 ×'; '' where no number was. */
export function foundText({ predicted, measured, unit }: Finding): string {
  if (measured !== undefined) return withUnit(measured, unit);
  if (predicted === undefined) return '';
  if (typeof predicted === 'number') return withUnit(predicted, unit);
  return estimateText(predicted, unit);
}

function estimateText({ value, low, high }: Estimate, unit: string | null): string {
  if (low === high) return withUnit(value, unit);
  return `${quantity(low)}${low < 0 ? ' to ' : '–'}${withUnit(high, unit)}`;
}

const LARGE = [
  [1e12, 'T'],
  [1e9, 'B'],
  [1e6, 'M'],
] as const;

/** Units that would not fit their column. */
const SHORT_UNITS: Readonly<Record<string, string>> = { x: '×', 'bytes/parameter': 'B/parameter' };

/** Three digits; parameters and the like in millions and billions. */
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

/** Claims by verdict, in the verdicts' order. */
export function countVerdicts(results: readonly ClaimResult[]): Readonly<Record<Verdict, number>> {
  const count = (verdict: Verdict): number =>
    results.filter(({ finding }) => finding.verdict === verdict).length;
  return {
    confirmed: count('confirmed'),
    off: count('off'),
    'contradicts itself': count('contradicts itself'),
    'not checkable here': count('not checkable here'),
  };
}
