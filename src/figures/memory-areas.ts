import type { MemoryCause } from '../core/events';
import { type MemoryOverTime, totalBytes } from '../ledger/memory';
import { type BytesByCause, noBytes } from '../ledger/record';
import { thinned } from './envelope';
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
