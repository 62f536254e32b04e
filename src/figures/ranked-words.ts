import type { Seconds } from '../core/units';
import type { Estimate } from '../plan/prediction';
import { titleOf } from './figure';
import { byteScale, counted, inUnit, type Scaled } from './format';
import { bold, safe, soft, strong } from './grammar/ink';
import { note, PAPER } from './grammar/marks';
import type { Annotation } from './grammar/plotly';
import { shortened } from './grammar/text-width';

/** One way to run a model, as a search ranked it. */
export interface RankedLayout {
  /** As 'dp 8 tp 4 pp 2'. */
  readonly name: string;
  readonly seconds: Estimate;
  readonly memoryBytes: Estimate;
  readonly fits: boolean;
  /** Of the winners 1, 2, …; null of those that lost. */
  readonly rank: number | null;
  /** What kind it belongs to, as 'tensor parallel'; losers are told one a family. */
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
const ROW = 17;
const REASON_ROW = 31;
/** Pixels of a text row on the narrowest page. */
const TEXT_PIXELS = 330;

/** Pixels that the words beside the picture take. */
export function wordsPixels(winners: number, losers: number): number {
  return 2 * ROW + (winners + losers) * REASON_ROW + (losers > 0 ? 24 : 0);
}

/** Beside the picture: the winners, and why each other family lost. */
export function rankedWords(
  winners: readonly RankedLayout[],
  losers: readonly RankedLayout[],
  pixels: number,
  scales: Scales,
): Annotation[] {
  let top = 0;
  const line = (text: string, height: number): Annotation => {
    const y = 1 - top / pixels;
    top += height;
    return note(TEXT, y, text, { ...PAPER, yanchor: 'top', align: 'left' });
  };
  const cut = (text: string, room = TEXT_PIXELS): string => safe(shortened(text, 11, room));
  return [
    ...(winners.length > 0 ? [line(soft('best'), ROW)] : []),
    ...winners.map((one) => {
      const name = `${bold(`${one.rank}`)} ${strong(cut(one.name))}`;
      return line(`${name}<br>${soft(numbersOf(one, scales))}`, REASON_ROW);
    }),
    ...(losers.length > 0
      ? [
          line(
            soft(`${winners.length > 0 ? '<br>' : ''}why the others lost`),
            ROW + (winners.length > 0 ? 20 : 0),
          ),
        ]
      : []),
    ...losers.map((one) =>
      line(
        `${strong(cut(one.family, 190))} ${soft(cut(numbersOf(one, scales), 140))}<br>${soft(cut(one.reason ?? ''))}`,
        REASON_ROW,
      ),
    ),
  ];
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
