import { niceTicks } from '../grammar/axes';
import type { Theme } from '../grammar/ink';
import type { Axis, AxisKey, Layout, Margin } from '../grammar/plotly';
import { AXIS, MARGIN, STATIC_WIDTH } from '../grammar/template';
import { baseline, element, svgText } from './svg';

/** An axis with its position on the picture. */
export interface Scale {
  readonly id: string;
  readonly isX: boolean;
  readonly axis: Axis;
  readonly range: readonly [number, number];
  /** The pixels at which the range begins and ends. */
  readonly from: number;
  readonly to: number;
  pixel(value: number): number;
}

/** The sizes and axes of a static picture. */
export interface Frame {
  readonly height: number;
  readonly margin: Margin;
  readonly scales: ReadonlyMap<string, Scale>;
  /** Returns the axis that a trace, an annotation or a shape names. */
  scale(id: string): Scale;
}

/** Resolves a layout's axes, and the axes 'paper x' and 'paper y', on which all panels together are from 0 to 1. */
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
      const axis = { ...AXIS, ...layout[key as AxisKey] }; // the expression matches only names of AxisKey
      return direction === undefined ? [] : [[id, scaleOf(id, direction === 'x', axis)]];
    }),
  );
  const papers = new Map(['paper x', 'paper y'].map((id) => [id, scaleOf(id, id === 'paper x', {})]));
  const scale = (id: string): Scale => {
    const known = scales.get(id) ?? papers.get(id);
    if (known === undefined) throw new Error(`figure refers to axis ${id}, which its layout lacks`);
    return known;
  };
  return { height: layout.height, margin, scales, scale };
}

/** Returns the pixel at coordinates that refer to axes or to the paper. */
export function pointAt(
  { scale }: Frame,
  { xref = 'x', yref = 'y' }: { readonly xref?: string; readonly yref?: string },
  [x, y]: readonly [number, number],
): readonly [number, number] {
  const along = scale(xref === 'paper' ? 'paper x' : xref);
  const up = scale(yref === 'paper' ? 'paper y' : yref);
  return [along.pixel(x), up.pixel(y)];
}

/** Draws the grid lines, ticks, labels and titles of all axes. */
export function svgAxes(frame: Frame, { soft: fill }: Theme): string[] {
  const shown = [...frame.scales.values()].filter(({ axis }) => axis.visible !== false);
  return shown.flatMap((scale) => axisParts(frame, scale, fill));
}

function axisParts({ scale: scaleOf, margin }: Frame, scale: Scale, fill: string): string[] {
  const { axis, isX, range } = scale;
  const crossing = scaleOf(axis.anchor ?? (isX ? 'y' : 'x'));
  const line = (value: number, to: number, stroke = ''): string => {
    const [at, from] = [scale.pixel(value), crossing.from];
    const ends = isX ? { x1: at, x2: at, y1: from, y2: to } : { x1: from, x2: to, y1: at, y2: at };
    return element('line', { ...ends, stroke });
  };
  const ticks = axis.tickvals ?? niceTicks(range, numTicks(scale));
  const decimals = Math.max(...ticks.map((value) => (String(value).split('.')[1] ?? '').length));
  const size = axis.tickfont?.size ?? 11;
  const label = (value: number, i: number): string => {
    const text = axis.ticktext?.[i] ?? value.toFixed(decimals).replace('-', '−');
    const at = scale.pixel(value);
    if (isX) return svgText(at, crossing.from + 6 + size, text, { size, anchor: 'middle', fill });
    return svgText(crossing.from - 7, at + baseline(text, size), text, { size, anchor: 'end', fill });
  };
  const hasZero = axis.zeroline === true && range[0] < 0 && range[1] > 0;
  const { text = '' } = axis.title ?? {};
  const middle = (scale.from + scale.to) / 2;
  const style = { size: 11, anchor: 'middle', fill } as const;
  const title = isX
    ? svgText(middle, crossing.from + 36, text, style)
    : svgText(Math.max(14, crossing.from - margin.l + 14), middle, text, { ...style, isTurned: true });
  return [
    ...ticks.flatMap((value, i) => [
      ...(axis.showgrid === false ? [] : [line(value, crossing.to, axis.gridcolor)]),
      ...(axis.ticks === '' ? [] : [line(value, crossing.from + (isX ? 4 : -4), axis.tickcolor)]),
      ...(axis.showticklabels === false ? [] : [label(value, i)]),
    ]),
    ...(hasZero ? [line(0, crossing.to, axis.zerolinecolor)] : []),
    ...(text === '' ? [] : [title]),
  ];
}

/** Returns the number of ticks: about one per 70 pixels on an x axis, and one per 45 pixels on a y axis. */
function numTicks({ from, to, isX }: Scale): number {
  return Math.max(2, Math.min(6, Math.abs(to - from) / (isX ? 70 : 45)));
}
