import type { Seconds } from '../../core/units';
import type { Estimate } from '../../plan/prediction';
import { titleOf } from '../figure';
import { byteScale, counted, inUnit, type Scaled } from '../format';
import { safe, soft, strong } from '../grammar/ink';
import { note, PAPER } from '../grammar/marks';
import type { Annotation } from '../grammar/plotly';
import { wrapped } from '../grammar/text-width';

/** One way to run a model, as a search ranked it. */
export interface RankedLayout {
  /** As 'dp 8 tp 4 pp 2'. */
  readonly name: string;
  readonly seconds: Estimate;
  readonly memoryBytes: Estimate;
  readonly fits: boolean;
  /** Of the winners 1, 2, …; null of those that lost. */
  readonly rank: number | null;
  /** What kind it belongs to, as 'tensor parallel'; each family of losers is named once. */
  readonly family: string;
  /** Why it, or its family, lost; null of winners. */
  readonly reason: string | null;
}

/** Units of the picture's axes. */
export interface Scales {
  readonly time: Scaled;
  readonly bytes: Scaled;
  /** Memory beyond this stands at the edge. */
  readonly most: number;
}

const TEXT = 0.45;
/** Pixels of a text row on the narrowest page. */
const TEXT_PIXELS = 330;

/** Text beside the picture: paragraphs of markup. */
type Paragraph = readonly string[];

/** The winners, and why each other family lost. */
export function rankedParagraphs(
  winners: readonly RankedLayout[],
  losers: readonly RankedLayout[],
  scales: Scales,
): Paragraph[] {
  const lines = (text: string, mark: (line: string) => string): string[] =>
    wrapped(text, 11, TEXT_PIXELS).map((line) => mark(safe(line)));
  return [
    ...(winners.length > 0 ? [[soft('best')]] : []),
    ...winners.map((one) => {
      const [first = '', ...more] = wrapped(`${one.rank} ${one.name}`, 11, TEXT_PIXELS).map(safe);
      const name = [strong(first.replace(/^\d+/, (rank) => `<b>${rank}</b>`)), ...more.map(strong)];
      return [...name, soft(numbersOf(one, scales))];
    }),
    ...(losers.length > 0 ? [[...(winners.length > 0 ? [''] : []), soft('why the others lost')]] : []),
    ...losers.map((one) => [
      `${strong(safe(one.family))} ${soft(safe(numbersOf(one, scales)))}`,
      ...lines(one.reason ?? '', soft),
    ]),
  ];
}

const LINE = 13.75;
const PARAGRAPH_GAP = 3.5;

/** Pixels that the words beside the picture take. */
export function wordsPixels(paragraphs: readonly Paragraph[]): number {
  return paragraphs.reduce((sum, lines) => sum + lines.length * LINE + PARAGRAPH_GAP, 0) + LINE;
}

/** The paragraphs right of the picture. */
export function rankedWords(paragraphs: readonly Paragraph[], pixels: number): Annotation[] {
  let top = 0;
  return paragraphs.map((lines) => {
    const y = 1 - top / pixels;
    top += lines.length * LINE + PARAGRAPH_GAP;
    return note(TEXT, y, lines.join('<br>'), { ...PAPER, yanchor: 'top', align: 'left' });
  });
}

/** As '1.33 s, 53.0 GB'. */
export function numbersOf({ seconds, memoryBytes }: RankedLayout, { time, bytes }: Scales): string {
  return `${inTime(seconds.value, time)}, ${inUnit(memoryBytes.value, bytes)}`;
}

/** Three digits, so that layouts close to each other differ. */
function inTime(seconds: Seconds, { divisor, unit }: Scaled): string {
  return `${Number((seconds / divisor).toPrecision(3))} ${unit}`;
}

interface Tried {
  readonly count: number;
  readonly fitting: number;
}

/** The winner, or that nothing fits. */
export function rankedFinding(
  layouts: readonly RankedLayout[],
  winners: readonly RankedLayout[],
  { time, tried }: { readonly time: Scaled; readonly tried?: Tried | undefined },
): string {
  const [best] = winners;
  const fitting = tried?.fitting ?? layouts.filter(({ fits }) => fits).length;
  const all = counted(tried?.count ?? layouts.length, 'layout');
  if (best === undefined || fitting === 0) {
    const least = layouts.reduce((a, b) => (b.memoryBytes.value < a.memoryBytes.value ? b : a));
    const bytes = inUnit(least.memoryBytes.value, byteScale(least.memoryBytes.value));
    return titleOf(`None of ${all} fits; the smallest needs ${bytes}`);
  }
  const taken = inTime(best.seconds.value, time);
  const bytes = inUnit(best.memoryBytes.value, byteScale(best.memoryBytes.value));
  return titleOf(
    `${best.name} is best: ${taken} in ${bytes}; ${fitting} of ${all} fit`,
    `${best.name} is best: ${taken} in ${bytes}`,
    `The best of ${all} takes ${taken} in ${bytes}; ${fitting.toLocaleString('en-US')} fit`,
  );
}

/** Of each family without a winner, its fastest layout that fits, else its smallest. */
export function familyLosers(layouts: readonly RankedLayout[]): RankedLayout[] {
  const won = new Set(layouts.filter(({ rank }) => rank !== null).map(({ family }) => family));
  const best = new Map<string, RankedLayout>();
  for (const one of layouts) {
    if (won.has(one.family) || one.reason === null) continue;
    const known = best.get(one.family);
    if (known === undefined || isBetter(one, known)) best.set(one.family, one);
  }
  return [...best.values()].sort((a, b) => a.seconds.value - b.seconds.value);
}

function isBetter(one: RankedLayout, other: RankedLayout): boolean {
  if (one.fits !== other.fits) return one.fits;
  return one.fits ? one.seconds.value < other.seconds.value : one.memoryBytes.value < other.memoryBytes.value;
}
