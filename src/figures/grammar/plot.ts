import { plain } from './ink';
import { heading } from './marks';
import type { Annotation, Axis, AxisKey, Layout, Shape, Trace } from './plotly';
import { STATIC_WIDTH } from './template';
import { textWidth } from './text-width';

/**
 * [Note: figure grammar] A figure is numbers, a finding and a plot: panels of marks in a frame. A panel is one pair of axes; its
 * marks (`marks.ts`) are given in its own values and bound to its axes here. What refers to the whole picture (PAPER) lies over
 * the panels. Panels get a place by `domain`: side by side, below each other, or in a grid (`facets.ts`).
 */
export interface Layer {
  readonly data?: readonly Trace[];
  readonly annotations?: readonly Annotation[];
  readonly shapes?: readonly Shape[];
}

/** One pair of axes and what stands on it. */
export interface Panel extends Layer {
  readonly x: Axis;
  readonly y: Axis;
  /** What it shows, above it: bold, then in passing; markup. */
  readonly heading?: string;
  readonly aside?: string;
}

/** The pixels around the panels, and of them together. */
export interface Frame {
  readonly top: number;
  readonly left: number;
  readonly right: number;
  readonly pixels: number;
  /** Below the panels: ticks and titles of axes; then comes the legend. */
  readonly foot: number;
  /** The legend: below the panels, from the panels' left end or from the picture's. */
  readonly legend?: 'plot' | 'edge';
  readonly barmode?: 'stack' | 'overlay';
}

const LEGEND_FOOT = 8;

/** Panels in a frame, as plotly's data and layout. */
export function plot(frame: Frame, panels: readonly Panel[], over: Layer = {}) {
  const bound = panels.map(onAxes);
  const layers: readonly Layer[] = [...bound, over];
  const data = layers.flatMap((layer) => layer.data ?? []);
  const layout: Layout = {
    ...framed(frame, data),
    ...(Object.assign({}, ...panels.map(axesOf)) as Partial<Layout>), // keys are AxisKeys
    annotations: layers.flatMap((layer) => layer.annotations ?? []),
    shapes: layers.flatMap((layer) => layer.shapes ?? []),
  };
  return { data, layout };
}

function framed({ top, left, right, pixels, foot, legend, barmode }: Frame, data: readonly Trace[]): Layout {
  const start = legend === 'edge' ? EDGE : left;
  const names = data.filter(({ showlegend, name }) => showlegend !== false && name !== undefined);
  const room =
    legend === undefined
      ? 0
      : legendRoom(
          names.map(({ name = '' }) => plain(name)),
          start,
        ) + LEGEND_FOOT;
  const x = legend === 'edge' ? -(left - EDGE) / (STATIC_WIDTH - left - right) : 0;
  return {
    height: Math.round(top + pixels + foot + room),
    margin: { t: top, r: right, l: left, b: foot + room },
    ...(data.some(({ type }) => type === 'bar') ? { barmode: barmode ?? 'overlay' } : {}),
    ...(legend === undefined ? {} : { showlegend: data.length > 0, legend: { x, y: -foot / pixels } }),
  };
}

const EDGE = 10;
const SWATCH_AND_GAP = 36;
const LINE = 19;

/** Pixels that a horizontal legend's lines take, from `left` to the edge of a static picture. */
function legendRoom(names: readonly string[], left: number): number {
  let lines = 1;
  let x = left;
  for (const name of names) {
    const needed = textWidth(name, 11) + SWATCH_AND_GAP;
    if (x > left && x + needed - 18 > STATIC_WIDTH - 8) {
      x = left;
      lines++;
    }
    x += needed;
  }
  return lines * LINE;
}

function suffixOf(i: number): string {
  return i === 0 ? '' : String(i + 1);
}

function axesOf({ x, y }: Panel, i: number): { readonly [key in AxisKey]?: Axis } {
  const suffix = suffixOf(i);
  return {
    [`xaxis${suffix}`]: { anchor: `y${suffix}`, ...x },
    [`yaxis${suffix}`]: { anchor: `x${suffix}`, ...y },
  };
}

function headingOf({ heading: what, aside, x, y }: Panel): Annotation[] {
  return what === undefined ? [] : [heading(x.domain?.[0] ?? 0, what, aside, y.domain?.[1])];
}

/** Marks that say no axis stand on their panel's. */
function onAxes(panel: Panel, i: number): Layer {
  const [x, y] = [`x${suffixOf(i)}`, `y${suffixOf(i)}`];
  return {
    data: (panel.data ?? []).map((trace) => {
      // Areas stack within their panel.
      const stack =
        trace.type === 'scatter' && trace.stackgroup !== undefined
          ? { stackgroup: `${trace.stackgroup} ${suffixOf(i)}` }
          : {};
      return { ...trace, ...stack, xaxis: x, yaxis: y };
    }),
    annotations: [...headingOf(panel), ...(panel.annotations ?? [])].map((one) => ({
      ...one,
      xref: one.xref ?? x,
      yref: one.yref ?? y,
    })),
    shapes: (panel.shapes ?? []).map((one) => ({ ...one, xref: one.xref ?? x, yref: one.yref ?? y })),
  };
}
