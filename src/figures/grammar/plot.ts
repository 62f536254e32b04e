import { bold, fits, safe, soft, strong, textWidth, wrapped, wrappedMarkup } from './ink';
import { note, PAPER } from './marks';
import type { Annotation, Axis, Layout, Shape, Trace } from './plotly';
import { STATIC_WIDTH } from './template';

/**
 * [Note: figure grammar] A figure is numbers, a finding and a plot; a plot is panels of marks in a frame. A panel is one pair
 * of axes and marks (`marks.ts`) in the units of these axes; `plot` binds marks to axes. Marks in shares of the whole picture
 * (PAPER) are drawn over the panels. An axis's `domain` places its panel: side by side, below each other, or in a grid
 * (`facets`).
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
  /** The markup above the panel: `heading` is bold, and `aside` follows in the secondary colour. */
  readonly heading?: string;
  readonly aside?: string;
}

/** Sizes in pixels: the margins around the panels, and the height of all panels together (`pixels`). */
export interface Frame {
  readonly top: number;
  readonly left: number;
  readonly right: number;
  readonly pixels: number;
  /** The height of ticks and axis titles below the panels; the legend follows below this height. */
  readonly foot: number;
  /** Puts a legend below the panels. The legend begins at the left end of the panels ('plot') or of the picture ('edge'). */
  readonly legend?: 'plot' | 'edge';
  readonly barmode?: 'stack';
}

const EDGE = 10;
const LEGEND_FOOT = 8;

/** Returns panels in a frame, as plotly's data and layout. */
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

/** Sizes of plotly's legends, in pixels: the swatch before an entry's text, the gap between entries, the height of a line. */
const SWATCH = 40;
const GAP = 5;
const LINE = 19;

/**
 * Returns the entries of a horizontal legend where plotly draws them, in pixels from the legend's corner: in one line, or in
 * columns whose texts are `entrywidth` wide. Texts count 10% wider than in our font, because a page's font may be wider.
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

/** Binds the marks that name no axis to the axes of their panel. */
function onAxes(panel: Panel, i: number): Layer {
  const [x, y] = [`x${suffixOf(i)}`, `y${suffixOf(i)}`];
  const { data = [], annotations = [], shapes = [], heading, aside = '' } = panel;
  const text = `${strong(`<b>${heading}</b>`)}${aside === '' ? '' : soft(aside)}`;
  const above = { ...PAPER, yanchor: 'bottom', font: { size: 12 } } as const;
  const title = note(panel.x.domain?.[0] ?? 0, panel.y.domain?.[1] ?? 1, text, above);
  return {
    data: data.map((trace) => {
      // Areas stack only on areas of the same panel.
      const isArea = trace.type === 'scatter' && trace.stackgroup !== undefined;
      return {
        ...trace,
        ...(isArea ? { stackgroup: `${trace.stackgroup} ${suffixOf(i)}` } : {}),
        xaxis: x,
        yaxis: y,
      };
    }),
    annotations: [...(heading === undefined ? [] : [title]), ...annotations].map((annotation) => ({
      ...annotation,
      xref: annotation.xref ?? x,
      yref: annotation.yref ?? y,
    })),
    shapes: shapes.map((shape) => ({ ...shape, xref: shape.xref ?? x, yref: shape.yref ?? y })),
  };
}

/** Sizes of a grid of facets, in pixels (other than `gap`). */
interface FacetSizes {
  readonly width: number;
  readonly heading: number;
  readonly body: number;
  /** The space between rows of facets. */
  readonly between: number;
  /** The space between columns, as a share of the width. */
  readonly gap: number;
  /** The share of the width that the grid has; other panels may be right of it. Default 1. */
  readonly share?: number;
}

const MAX_COLUMNS = 4;

/** The words above a facet: a name, and below it the first wording that fits. Both are plain text. */
export interface Caption {
  readonly name: string;
  readonly wordings: readonly string[];
}

interface FacetLayers extends Layer {
  /** Panels beside the grid. */
  readonly beside?: readonly Panel[];
  /** The caption of each case; the heading of a facet is higher if a name has several lines. */
  readonly captions?: readonly Caption[];
}

/**
 * Draws each case in a facet of a grid, with the panels that `panelsOf` returns. All facets have one legend; what else they share,
 * such as the ranges of axes, is what `panelsOf` gives to all of them.
 */
export function plotFacets<C>(
  cases: readonly C[],
  frame: Omit<Frame, 'pixels'>,
  sizes: Omit<FacetSizes, 'width'>,
  panelsOf: (facetCase: C, facet: Facet) => readonly Panel[],
  { beside = [], captions = [], ...over }: FacetLayers = {},
) {
  const width = STATIC_WIDTH - frame.left - frame.right;
  const room = width / Math.min(cases.length, MAX_COLUMNS) - 20;
  const numLines = Math.max(1, ...captions.map(({ name }) => wrapped(name, 11, room).length));
  const heading = sizes.heading + (numLines - 1) * NAME_LINE;
  const { pixels, all } = facets(cases.length, { ...sizes, heading, width });
  const panels = cases.flatMap((facetCase, i) => {
    const facet = all[i];
    return facet === undefined ? [] : panelsOf(facetCase, facet);
  });
  const annotations = captions.flatMap((caption, i) => {
    const facet = all[i];
    return facet === undefined ? [] : captionOf(caption, facet);
  });
  return plot({ ...frame, pixels }, [...panels, ...beside], { annotations, ...over });
}

const NAME_LINE = 14;

function captionOf({ name, wordings }: Caption, { pixels, across, at }: Facet): Annotation {
  const names = wrappedMarkup(name, 11, pixels - 8, (line) => bold(safe(line)));
  const words = wordings.find((wording) => fits(wording, 11, pixels - 4)) ?? wordings.at(-1) ?? '';
  const place = { ...PAPER, yanchor: 'bottom', align: 'left' } as const;
  return note(across[0], at(0), `${names}<br>${soft(safe(words))}`, place);
}

/** Makes a grid of `count` equal facets, at most four per row; the result's `pixels` is the height of all rows. */
function facets(count: number, { width, heading, body, between, gap, share: whole = 1 }: FacetSizes) {
  const columns = Math.min(count, MAX_COLUMNS);
  const lines = Math.ceil(count / columns);
  const pixels = lines * (heading + body) + (lines - 1) * between;
  const share = (whole - (columns - 1) * gap) / columns;
  const all = Array.from({ length: count }, (_, index) => {
    const column = index % columns;
    const top = Math.floor(index / columns) * (heading + body + between) + heading;
    const left = column * (share + gap);
    /** Returns the y coordinate (a share of the height) that is this number of pixels below the facet's heading. */
    const at = (below: number): number => Math.max(0, 1 - (top + below) / pixels);
    return {
      across: [left, Math.min(1, left + share)] as const,
      pixels: share * width,
      isLeft: column === 0,
      /** Whether no other facet is below this facet. */
      isLow: index + columns >= count,
      at,
      /** Returns the axis's domain (shares of the height) between two positions, both in pixels below the heading. */
      down: (from: number, to: number) => [at(to), at(from)] as const,
    };
  });
  return { pixels, all };
}

/** A facet of a grid; its coordinates are shares of the grid's width and height. */
export type Facet = ReturnType<typeof facets>['all'][number];
