import { soft, strong } from './ink';
import { note, PAPER } from './marks';
import type { Annotation, Axis, Layout, Shape, Trace } from './plotly';
import { STATIC_WIDTH } from './template';
import { textWidth } from './text-width';

/**
 * [Note: figure grammar] A figure is numbers, a finding and a plot: panels of marks in a frame. A panel is one pair of axes; its
 * marks (`marks.ts`) are given in its own values and bound to its axes here. What refers to the whole picture (PAPER) is over
 * the panels. Panels get a place by `domain`: side by side, below each other, or in a grid (`facets.ts`).
 */
export interface Layer {
  readonly data?: readonly Trace[];
  readonly annotations?: readonly Annotation[];
  readonly shapes?: readonly Shape[];
}

/** One pair of axes and the marks on it. */
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
  readonly barmode?: 'stack';
}

const EDGE = 10;
const LEGEND_FOOT = 8;

/** Panels in a frame, as plotly's data and layout. */
export function plot(frame: Frame, panels: readonly Panel[], over: Layer = {}) {
  const { top, left, right, pixels, foot, legend, barmode = 'overlay' } = frame;
  const layers: readonly Layer[] = [...panels.map(onAxes), over];
  const data = layers.flatMap((layer) => layer.data ?? []);
  const width = STATIC_WIDTH - right - (legend === 'edge' ? 0 : left);
  const { height, entrywidth } = legendPlaces(data, width);
  const room = legend === undefined ? 0 : height + LEGEND_FOOT;
  const x = legend === 'edge' ? -(left - EDGE) / (STATIC_WIDTH - left - right) : 0;
  const columns = entrywidth === undefined ? {} : { entrywidth };
  const hasBars = data.some(({ type }) => type === 'bar');
  const layout: Layout = {
    height: Math.round(top + pixels + foot + room),
    margin: { t: top, r: right, l: left, b: foot + room },
    ...(hasBars ? { barmode } : {}),
    ...(legend && data.length > 0 ? { showlegend: true, legend: { x, y: -foot / pixels, ...columns } } : {}),
    ...Object.fromEntries(
      panels.flatMap((panel, i) => [
        [`xaxis${suffixOf(i)}`, { anchor: `y${suffixOf(i)}`, ...panel.x }],
        [`yaxis${suffixOf(i)}`, { anchor: `x${suffixOf(i)}`, ...panel.y }],
      ]),
    ),
    annotations: layers.flatMap((layer) => layer.annotations ?? []),
    shapes: layers.flatMap((layer) => layer.shapes ?? []),
  };
  return { data, layout };
}

/** Sizes of plotly's legends: before an entry's text its swatch, between entries, and of a line. */
const SWATCH = 40;
const GAP = 5;
const LINE = 19;

/**
 * The entries of a horizontal legend, in pixels from its corner, at the places that plotly gives them: in one line, or in columns of equal width,
 * whose texts are `entrywidth` wide. Hosts' fonts may be wider than ours.
 */
export function legendPlaces(data: readonly Trace[], width: number) {
  const traces = data.filter(({ showlegend, name }) => showlegend !== false && name !== undefined);
  const texts = traces.map(({ name = '' }) => textWidth(name, 11) * 1.1);
  const isOneLine = texts.reduce((sum, text) => sum + text + SWATCH + GAP, -GAP) < width;
  const entrywidth = Math.ceil(Math.max(...texts));
  let [x, y] = [0, 0];
  const entries = traces.map((trace, i) => {
    const next = (isOneLine ? (texts[i] ?? 0) : entrywidth) + SWATCH + GAP;
    if (x > 0 && x + next - GAP >= width) {
      x = 0;
      y += LINE;
    }
    x += next;
    return { trace, x: x - next, y };
  });
  return { entries, height: y + LINE, ...(isOneLine ? {} : { entrywidth }) };
}

function suffixOf(i: number): string {
  return i === 0 ? '' : String(i + 1);
}

/** Marks that name no axis are on their panel's. */
function onAxes(panel: Panel, i: number): Layer {
  const [x, y] = [`x${suffixOf(i)}`, `y${suffixOf(i)}`];
  const { data = [], annotations = [], shapes = [], heading, aside = '' } = panel;
  const text = `${strong(`<b>${heading}</b>`)}${aside === '' ? '' : soft(aside)}`;
  const above = { ...PAPER, yanchor: 'bottom', font: { size: 12 } } as const;
  const title = note(panel.x.domain?.[0] ?? 0, panel.y.domain?.[1] ?? 1, text, above);
  return {
    data: data.map((trace) => {
      // Areas stack within their panel.
      const isArea = trace.type === 'scatter' && trace.stackgroup !== undefined;
      return {
        ...trace,
        ...(isArea ? { stackgroup: `${trace.stackgroup} ${suffixOf(i)}` } : {}),
        xaxis: x,
        yaxis: y,
      };
    }),
    annotations: [...(heading === undefined ? [] : [title]), ...annotations].map((one) => ({
      ...one,
      xref: one.xref ?? x,
      yref: one.yref ?? y,
    })),
    shapes: shapes.map((one) => ({ ...one, xref: one.xref ?? x, yref: one.yref ?? y })),
  };
}

/** Sizes of a grid of facets, in pixels. */
export interface FacetSizes {
  readonly width: number;
  readonly heading: number;
  readonly body: number;
  /** Between lines of facets. */
  readonly between: number;
  /** Between columns, a share of the width. */
  readonly gap: number;
}

const MAX_COLUMNS = 4;

/** A grid of `count` equal facets, four in a line; `pixels` high together. */
export function facets(count: number, { width, heading, body, between, gap }: FacetSizes) {
  const columns = Math.min(count, MAX_COLUMNS);
  const lines = Math.ceil(count / columns);
  const pixels = lines * (heading + body) + (lines - 1) * between;
  const share = (1 - (columns - 1) * gap) / columns;
  const all = Array.from({ length: count }, (_, index) => {
    const column = index % columns;
    const top = Math.floor(index / columns) * (heading + body + between) + heading;
    const left = column * (share + gap);
    /** The share of the height at this number of pixels below the facet's heading. */
    const at = (below: number): number => Math.max(0, 1 - (top + below) / pixels);
    return {
      across: [left, Math.min(1, left + share)] as const,
      pixels: share * width,
      isLeft: column === 0,
      /** Whether no facet of its column is below. */
      isLow: index + columns >= count,
      at,
      /** A domain between two such places. */
      down: (from: number, to: number) => [at(to), at(from)] as const,
    };
  });
  return { pixels, all };
}

/** One of a grid's panels: shares of the picture's width and height. */
export type Facet = ReturnType<typeof facets>['all'][number];
