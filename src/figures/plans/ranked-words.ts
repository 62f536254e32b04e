import type { Bytes, Seconds } from '../../core';
import type { Recommendation } from '../../planner';
import type { Title } from '../figure';
import { byteScale, counted, inUnit, type Scaled } from '../format';
import { safe, soft, strong } from '../grammar/ink';
import { note, PAPER } from '../grammar/marks';
import type { Annotation } from '../grammar/plotly';
import { wrapped } from '../grammar/text-width';

/** A layout that a search names. */
export interface RankedLayout {
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
    ...(losers.length > 0
      ? [[...(winners.length > 0 ? [''] : []), soft('why the other families lost')]]
      : []),
    ...losers.map((one) => [
      `${strong(safe(one.family))} ${soft(safe(numbersOf(one, scales)))}`,
      ...lines(one.reason ?? '', soft),
    ]),
  ];
}

const LINE = 13.75;
const PARAGRAPH_GAP = 3.5;

/** Returns the height of the text beside the picture, in pixels. */
export function wordsPixels(paragraphs: readonly Paragraph[]): number {
  return paragraphs.reduce((sum, lines) => sum + lines.length * LINE + PARAGRAPH_GAP, 0) + LINE;
}

/** Places the paragraphs right of the picture. */
export function rankedWords(paragraphs: readonly Paragraph[], pixels: number): Annotation[] {
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
export function rankedFinding(
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
export function familyLosers(layouts: readonly RankedLayout[]): RankedLayout[] {
  const won = new Set(layouts.filter(({ rank }) => rank !== null).map(({ family }) => family));
  return layouts
    .filter(({ family }) => !won.has(family))
    .sort((a, b) => a.seconds - b.seconds)
    .slice(0, MOST_LOSERS);
}

const MOST_LOSERS = 5;
