import { MEMORY_CAUSES, type MemoryCause } from '../core/events';
import type { Bytes } from '../core/units';
import { type MemoryOverTime, totalBytes } from '../ledger/memory';
import { type BytesByCause, noBytes } from '../ledger/record';
import type { Scaled } from './format';
import { line, rounded } from './grammar/marks';
import { CAUSE_FILL, STACK_ORDER } from './grammar/palette';
import type { LineSpec, ScatterTrace } from './grammar/plotly';

/** The units of memory and time in a figure. */
export interface MemoryScales {
  readonly bytes: Scaled;
  readonly time: Scaled;
}

/** Of totals that are compared with. */
export const DOTTED: LineSpec = { width: 1, color: 'rgba(128,128,128,.95)', dash: 'dot' };

/** Memory over time as stacked areas, a cause each; `extra` is said to whoever points at one. */
export function causeAreas(
  whole: MemoryOverTime,
  { bytes, time }: MemoryScales,
  { maxPoints, extra = '' }: { readonly maxPoints: number; readonly extra?: string },
): ScatterTrace[] {
  const curve = thinned(whole, maxPoints);
  return causesIn(whole).map((cause) => {
    const { color, pattern } = CAUSE_FILL[cause];
    const points = {
      x: curve.seconds.map((seconds) => rounded(seconds / time.divisor)),
      y: curve.byCause[cause].map((held) => rounded(held / bytes.divisor)),
    };
    return line(
      points,
      { width: 0.5, color: 'rgba(255,255,255,.6)', shape: 'hv' },
      {
        name: cause,
        showlegend: false,
        stackgroup: 'panel',
        fillcolor: color,
        fillpattern: pattern ?? { shape: '' },
        hoveron: 'points+fills',
        hovertemplate: `<b>${cause}</b> %{y:.2f} ${bytes.unit} at %{x:.2f} ${time.unit}<extra>${extra}</extra>`,
      },
    );
  });
}

/** Causes that hold anything at any time, bottom to top. */
export function causesIn(curve: MemoryOverTime): readonly MemoryCause[] {
  return STACK_ORDER.filter((cause) => curve.byCause[cause].some((bytes) => bytes > 0));
}

/** The most that a curve holds, and what that is made of. */
export function peakOf(curve: MemoryOverTime): { readonly bytes: number; readonly byCause: BytesByCause } {
  const bytes = Math.max(0, ...curve.total);
  const at = curve.total.indexOf(bytes);
  const byCause = noBytes();
  for (const cause of STACK_ORDER) byCause[cause] = curve.byCause[cause][at] ?? 0;
  return { bytes: totalBytes(byCause), byCause };
}

/**
 * A curve with at most about `maxPoints` points: of each stretch of time the moment at which most was held, so that
 * the peak stays exact. Short curves stay as they are.
 */
export function thinned(curve: MemoryOverTime, maxPoints: number): MemoryOverTime {
  const count = curve.seconds.length;
  if (count <= maxPoints) return curve;
  const end = curve.seconds[count - 1] ?? 0;
  const bin = (i: number): number => Math.floor(((curve.seconds[i] ?? 0) / (end || 1)) * (maxPoints - 2));
  const kept: number[] = [];
  for (let i = 0; i < count; ) {
    let best = i;
    let next = i;
    for (; next < count && bin(next) === bin(i); next++) {
      if ((curve.total[next] ?? 0) > (curve.total[best] ?? 0)) best = next;
    }
    kept.push(best);
    i = next;
  }
  if (kept.at(-1) !== count - 1) kept.push(count - 1);
  const pick = (values: readonly number[]): number[] => kept.map((i) => values[i] ?? 0);
  const byCause = {} as Record<MemoryCause, readonly Bytes[]>; // filled for every cause on the next line
  for (const cause of MEMORY_CAUSES) byCause[cause] = pick(curve.byCause[cause]);
  return { seconds: pick(curve.seconds), byCause, total: pick(curve.total), ring: pick(curve.ring) };
}
