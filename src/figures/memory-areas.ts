import { type Bytes, listed, MEMORY_CAUSES, type MemoryCause, type Seconds, type SpanName } from '../core';
import {
  type BytesByCause,
  type MemoryOverTime,
  memoryAtPeak,
  memoryAtRest,
  noBytes,
  type StepRecord,
  type Timeline,
  timeline,
  totalBytes,
} from '../ledger';
import type { Scaled } from './format';
import { soft, textWidth } from './grammar/ink';
import { line, note, rounded } from './grammar/marks';
import { CAUSE_FILL, PHASE_FILL, STACK_ORDER } from './grammar/palette';
import type { Annotation, LineSpec, ScatterTrace, Shape } from './grammar/plotly';

/** The units of memory and time in a figure. */
export interface MemoryScales {
  readonly bytes: Scaled;
  readonly time: Scaled;
}

/** The style of a dotted line that shows totals for comparison. */
export const DOTTED: LineSpec = { width: 1, color: 'rgba(128,128,128,.95)', dash: 'dot' };

/**
 * Says that hatched bytes are freed within the step, and which hatched causes also hold bytes after it; '' if none are freed.
 * Under DDP, whole parameters remain after the step.
 */
export function hatchText(records: readonly StepRecord[]): string {
  const hatched = STACK_ORDER.filter((cause) => CAUSE_FILL[cause].pattern !== undefined);
  const held = (of: (record: StepRecord) => BytesByCause) =>
    hatched.filter((cause) => records.some((record) => of(record)[cause] > 0));
  const [kept, seen] = [held(memoryAtRest), held(memoryAtPeak)];
  if (seen.every((cause) => kept.includes(cause))) return '';
  const more = kept.length === 1 ? ' also holds' : ' also hold';
  return ` Hatched: freed within the step${kept.length === 0 ? '' : `; ${listed(kept)}${more} bytes after it`}.`;
}

/** Draws memory over time as stacked areas, one per cause; `extra` is part of the hover text. */
export function causeAreas(
  whole: MemoryOverTime,
  { bytes, time }: MemoryScales,
  maxPoints: number,
  extra: string,
): ScatterTrace[] {
  const curve = thinCurve(whole, maxPoints);
  return causesIn(whole).map((cause) => {
    const { color, pattern } = CAUSE_FILL[cause];
    const points = pointsOf(curve, curve.byCause[cause], { bytes, time });
    const said = `<b>${cause}</b> %{y:.2f} ${bytes.unit} at %{x:.2f} ${time.unit}<extra>${extra}</extra>`;
    return line(
      points,
      { width: 0.5, color: 'rgba(255,255,255,.6)', shape: 'hv' },
      {
        name: cause,
        showlegend: false,
        stackgroup: 'panel',
        fillcolor: color,
        ...(pattern === undefined ? {} : { fillpattern: pattern }),
        hoveron: 'points+fills',
        hovertemplate: said,
      },
    );
  });
}

/** Draws a rank's total over time as a dotted line. */
export function totalLine(whole: MemoryOverTime, rank: number, scales: MemoryScales, maxPoints: number) {
  const curve = thinCurve(whole, maxPoints);
  const units = [scales.bytes.unit, scales.time.unit] as const;
  const hovertemplate = `<b>rank ${rank}</b> %{y:.2f} ${units[0]} at %{x:.2f} ${units[1]}<extra></extra>`;
  const spec = { ...DOTTED, width: 1.1, shape: 'hv' } as const;
  return line(pointsOf(curve, curve.total, scales), spec, { name: `rank ${rank}`, hovertemplate });
}

function pointsOf({ seconds }: MemoryOverTime, held: readonly Bytes[], { bytes, time }: MemoryScales) {
  return {
    x: seconds.map((at) => rounded(at / time.divisor)),
    y: held.map((value) => rounded(value / bytes.divisor)),
  };
}

/** Returns the causes that hold bytes at any time of a curve, bottom to top. */
export function causesIn(curve: MemoryOverTime): readonly MemoryCause[] {
  return STACK_ORDER.filter((cause) => curve.byCause[cause].some((bytes) => bytes > 0));
}

/** Returns the bytes at a curve's peak, by cause and in total. */
export function peakOf(curve: MemoryOverTime): { readonly bytes: number; readonly byCause: BytesByCause } {
  const at = curve.total.indexOf(Math.max(0, ...curve.total));
  const byCause = noBytes();
  for (const cause of STACK_ORDER) byCause[cause] = curve.byCause[cause][at] ?? 0;
  return { bytes: totalBytes(byCause), byCause };
}

/**
 * Reduces a curve to about `maxPoints` points. In each interval of time, only the moment with the most bytes remains, so that
 * the peak is exact. Returns a shorter curve unchanged.
 */
function thinCurve(curve: MemoryOverTime, maxPoints: number): MemoryOverTime {
  const { seconds, total } = curve;
  if (seconds.length <= maxPoints) return curve;
  const perSecond = (maxPoints - 2) / (seconds.at(-1) || 1);
  const kept: number[] = [];
  seconds.forEach((at, i) => {
    const best = kept.at(-1);
    const isSame =
      best !== undefined && Math.floor((seconds[best] ?? 0) * perSecond) === Math.floor(at * perSecond);
    if (!isSame) kept.push(i);
    else if ((total[i] ?? 0) > (total[best] ?? 0)) kept[kept.length - 1] = i;
  });
  if (kept.at(-1) !== seconds.length - 1) kept.push(seconds.length - 1);
  const pick = (values: readonly number[]): number[] => kept.map((i) => values[i] ?? 0);
  const byCause = {} as Record<MemoryCause, readonly Bytes[]>; // the next line sets every cause
  for (const cause of MEMORY_CAUSES) byCause[cause] = pick(curve.byCause[cause]);
  return { seconds: pick(seconds), byCause, total: pick(total), ring: pick(curve.ring) };
}

/** Returns the main thread's phases without gaps: each wait or gap belongs to the phase before it. */
function phases({ main, seconds }: Timeline) {
  const begun: { phase: Exclude<SpanName, 'step'>; start: Seconds }[] = [];
  for (const { kind, start } of main) {
    if (kind === 'wait' || kind === 'step' || kind === begun.at(-1)?.phase) continue;
    // Time before the first phase (such as for gathering parameters) belongs to the first phase; time after the last phase
    // belongs to the last phase.
    begun.push({ phase: kind, start: begun.length === 0 ? 0 : start });
  }
  const end = Math.max(main.at(-1)?.end ?? 0, seconds);
  return begun.map((stretch, i) => ({ ...stretch, end: begun[i + 1]?.start ?? end }));
}

const BAND = { low: 1.0, high: 1.04 };

/**
 * Draws the phases as a coloured band above the plot, with names if there is room. The axis is `pixels` wide and shows
 * `seconds`.
 */
export function phaseStrip(
  record: StepRecord,
  { divisor }: Scaled,
  { pixels, seconds }: { readonly pixels: number; readonly seconds: Seconds },
) {
  const stretches = phases(timeline(record));
  const shapes = stretches.map(({ phase, start, end }): Shape => {
    const place = { x0: start / divisor, x1: end / divisor, y0: BAND.low, y1: BAND.high, yref: 'paper' };
    return { type: 'rect', ...place, fillcolor: PHASE_FILL[phase].color, line: { width: 0 } };
  });
  const perSecond = pixels / seconds;
  let free = -8;
  const annotations = named(stretches, perSecond).flatMap(
    ({ name, start, end }, i, { length }): Annotation[] => {
      const half = textWidth(name, 11) / 2 + 4;
      const isLast = i === length - 1;
      const centered = ((start + end) / 2) * perSecond;
      const middle = isLast ? Math.min(centered, end * perSecond - half + 4) : centered;
      if (middle - half < free || (isNarrow({ name, start, end }, perSecond) && !isLast)) return [];
      free = middle + half;
      const place = { yref: 'paper', xanchor: 'center', yanchor: 'bottom' } as const;
      return [note(middle / perSecond / divisor, BAND.high, soft(name), place)];
    },
  );
  return { shapes, annotations };
}

interface Named {
  readonly name: string;
  readonly start: Seconds;
  readonly end: Seconds;
}

/** Whether a stretch of the band has no room for its name. */
function isNarrow({ name, start, end }: Named, perSecond: number): boolean {
  return textWidth(name, 11) + 8 > (end - start) * perSecond + 24;
}

/** Gives each stretch a name; the narrow stretches at the end share one, so that it does not stand over another phase. */
function named(stretches: ReturnType<typeof phases>, perSecond: number): readonly Named[] {
  const all = stretches.map(({ phase, start, end }): Named => ({ name: phase, start, end }));
  const wide = all.findLastIndex((stretch) => !isNarrow(stretch, perSecond));
  const [first, ...rest] = all.slice(wide + 1);
  if (first === undefined) return all;
  const name = [first, ...rest].map((stretch) => stretch.name).join(', ');
  return [...all.slice(0, wide + 1), { name, start: first.start, end: rest.at(-1)?.end ?? first.end }];
}
