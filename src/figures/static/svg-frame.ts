import type { Axis, AxisKey, Layout, Margin } from '../grammar/plotly';
import { AXIS, MARGIN, STATIC_WIDTH } from '../grammar/template';

/** An axis with its place on the picture. */
export interface Scale {
  readonly id: string;
  readonly isX: boolean;
  readonly axis: Axis;
  readonly range: readonly [number, number];
  /** Pixels of the range's two ends. */
  readonly from: number;
  readonly to: number;
  pixel(value: number): number;
}

/** Where everything is on one static picture. */
export interface Frame {
  readonly height: number;
  readonly margin: Margin;
  readonly scales: ReadonlyMap<string, Scale>;
  /** The scale of a trace, an annotation or a shape. */
  scale(id: string): Scale;
}

/** Resolves a layout's axes, and 'paper x' and 'paper y', on which the panels reach from 0 to 1. */
export function frameOf(layout: Layout): Frame {
  const margin = { ...MARGIN, ...layout.margin };
  const scaleOf = (id: string, isX: boolean, axis: Axis): Scale => {
    const { domain: [start, end] = [0, 1], range = [0, 1] } = axis;
    const base = isX ? margin.l : layout.height - margin.b;
    const extent = isX ? STATIC_WIDTH - margin.l - margin.r : margin.t + margin.b - layout.height;
    const [from, to] = [base + start * extent, base + end * extent];
    const perUnit = (to - from) / (range[1] - range[0] || 1);
    return { id, isX, axis, range, from, to, pixel: (value) => from + (value - range[0]) * perUnit };
  };
  const scales = new Map(
    Object.keys(layout).flatMap((key) => {
      const [, direction, number] = /^([xy])axis(\d*)$/.exec(key) ?? [];
      const id = `${direction}${number}`;
      const axis = { ...AXIS, ...layout[key as AxisKey] }; // the expression is AxisKey's
      return direction === undefined ? [] : [[id, scaleOf(id, direction === 'x', axis)]];
    }),
  );
  const papers = new Map(['paper x', 'paper y'].map((id) => [id, scaleOf(id, id === 'paper x', {})]));
  const scale = (id: string): Scale => {
    const found = scales.get(id) ?? papers.get(id);
    if (found === undefined) throw new Error(`figure refers to axis ${id}, which its layout lacks`);
    return found;
  };
  return { height: layout.height, margin, scales, scale };
}

/** Pixels of a place that refers to axes or to the paper. */
export function pointAt(
  { scale }: Frame,
  { xref = 'x', yref = 'y' }: { readonly xref?: string; readonly yref?: string },
  [x, y]: readonly [number, number],
): readonly [number, number] {
  const along = scale(xref === 'paper' ? 'paper x' : xref);
  const up = scale(yref === 'paper' ? 'paper y' : yref);
  return [along.pixel(x), up.pixel(y)];
}
