import type { Axis, AxisKey, Layout, Margin, Trace } from '../grammar/plotly';
import { AXIS, MARGIN } from '../grammar/template';

/** An axis with its place on the picture. */
export interface Scale {
  readonly id: string;
  readonly direction: 'x' | 'y';
  readonly axis: Axis;
  readonly range: readonly [number, number];
  /** Pixels of the range's two ends. */
  readonly from: number;
  readonly to: number;
  pixel(value: number): number;
}

/** Where everything lies on one static picture. */
export interface Frame {
  readonly width: number;
  readonly height: number;
  readonly margin: Margin;
  readonly plotWidth: number;
  readonly plotHeight: number;
  readonly scales: ReadonlyMap<string, Scale>;
}

/** Resolves a layout's axes at a given width. */
export function frameOf(layout: Layout, data: readonly Trace[], width: number): Frame {
  const margin = { ...MARGIN, ...layout.margin };
  const plotWidth = width - margin.l - margin.r;
  const plotHeight = layout.height - margin.t - margin.b;
  const keys = new Set<string>(['xaxis', 'yaxis', ...Object.keys(layout)]);
  const scales = new Map<string, Scale>();
  for (const key of keys) {
    const match = /^([xy])axis(\d*)$/.exec(key);
    if (match === null) continue;
    const direction = match[1] as 'x' | 'y'; // the expression allows nothing else
    const id = `${direction}${match[2]}`;
    const axis = { ...AXIS, ...layout[key as AxisKey] }; // the expression is AxisKey's
    const [start, end] = axis.domain ?? [0, 1];
    const range = axis.range ?? autoRange(id, direction, data);
    const base = direction === 'x' ? margin.l : layout.height - margin.b;
    const extent = direction === 'x' ? plotWidth : -plotHeight;
    const from = base + start * extent;
    const to = base + end * extent;
    const pixel = (value: number): number =>
      from + ((value - range[0]) / (range[1] - range[0] || 1)) * (to - from);
    scales.set(id, { id, direction, axis, range, from, to, pixel });
  }
  return { width, height: layout.height, margin, plotWidth, plotHeight, scales };
}

function autoRange(id: string, direction: 'x' | 'y', data: readonly Trace[]): [number, number] {
  const values = data
    .filter((trace) => (trace[direction === 'x' ? 'xaxis' : 'yaxis'] ?? direction) === id)
    .flatMap((trace) => trace[direction]);
  const low = Math.min(0, ...values);
  const high = Math.max(...values, low + 1e-9);
  return [low, high + (high - low) * 0.05];
}

/** The scale of a trace, an annotation or a shape. */
export function scaleOf(frame: Frame, id: string): Scale {
  const scale = frame.scales.get(id);
  if (scale === undefined) throw new Error(`figure refers to axis ${id}, which its layout lacks`);
  return scale;
}

/** Pixels of a coordinate that refers to an axis or to the paper (0 to 1 over the plot's area). */
export function place(frame: Frame, ref: string | undefined, direction: 'x' | 'y', value: number): number {
  if (ref !== 'paper') return scaleOf(frame, ref ?? direction).pixel(value);
  return direction === 'x'
    ? frame.margin.l + value * frame.plotWidth
    : frame.height - frame.margin.b - value * frame.plotHeight;
}

/** Round numbers within a range, about `count` of them. */
export function niceTicks(range: readonly [number, number], count: number): number[] {
  const low = Math.min(...range);
  const high = Math.max(...range);
  const raw = (high - low) / count;
  if (!(raw > 0)) return [low];
  const power = 10 ** Math.floor(Math.log10(raw));
  const factor = raw / power;
  const step = (factor < 1.5 ? 1 : factor < 3.5 ? 2 : factor < 7.5 ? 5 : 10) * power;
  const ticks: number[] = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; i++) {
    ticks.push(Number((i * step).toPrecision(12)));
  }
  return ticks;
}
