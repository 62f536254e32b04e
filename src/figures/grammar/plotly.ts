import type { Fill, Pattern } from './palette';

// The part of plotly's figure format that our figures use, and that the static writer draws. Axes hold numbers;
// names are tick texts.

export interface FontSpec {
  readonly size?: number;
  readonly color?: string;
}

export interface LineSpec {
  readonly width?: number;
  readonly color?: string;
  readonly shape?: 'hv';
  readonly dash?: 'dot' | 'dash';
}

interface TraceBase {
  readonly x: readonly number[];
  readonly y: readonly number[];
  readonly name?: string;
  readonly xaxis?: string;
  readonly yaxis?: string;
  readonly text?: readonly string[];
  readonly hovertemplate?: string;
  readonly hoverinfo?: 'skip';
  readonly showlegend?: boolean;
  readonly legendgroup?: string;
}

export interface ScatterTrace extends TraceBase {
  readonly type: 'scatter';
  readonly mode: 'lines' | 'markers' | 'lines+markers';
  readonly line?: LineSpec;
  readonly stackgroup?: string;
  readonly fillcolor?: string;
  readonly fillpattern?: Pattern;
  readonly hoveron?: 'points+fills';
  readonly marker?: Marker;
  /** A closed outline filled with fillcolor. */
  readonly fill?: 'toself';
}

export interface Marker {
  readonly size: number;
  readonly color: string;
  /** Default: circle. */
  readonly symbol?: MarkerSymbol;
  readonly opacity?: number;
  /** Of open symbols the outline, whose colour is the marker's. */
  readonly line?: { readonly width: number; readonly color?: string };
}

export type MarkerSymbol = 'circle' | 'circle-open' | 'square' | 'diamond-open' | 'x' | 'line-ew-open';

export interface BarTrace extends TraceBase {
  readonly type: 'bar';
  readonly orientation?: 'h';
  readonly base?: readonly number[];
  readonly width?: number;
  readonly marker: Fill & { readonly line?: { readonly width: number; readonly color?: string } };
  readonly customdata?: readonly (string | number)[];
  readonly textposition?: 'inside';
  readonly insidetextanchor?: 'middle';
  readonly textangle?: number;
  readonly constraintext?: 'none';
  readonly textfont?: FontSpec;
}

export type Trace = ScatterTrace | BarTrace;

export interface Axis {
  readonly domain?: readonly [number, number];
  readonly range?: readonly [number, number];
  readonly anchor?: string;
  readonly visible?: boolean;
  readonly showgrid?: boolean;
  readonly showticklabels?: boolean;
  readonly zeroline?: boolean;
  readonly zerolinecolor?: string;
  readonly tickvals?: readonly number[];
  readonly ticktext?: readonly string[];
  readonly ticks?: '' | 'outside';
  readonly tickfont?: FontSpec;
  readonly title?: { readonly text: string; readonly standoff?: number; readonly font?: FontSpec };
  readonly fixedrange?: boolean;
  readonly gridcolor?: string;
  readonly linecolor?: string;
  readonly tickcolor?: string;
  readonly ticklen?: number;
  /** Pixels between labels and axis where there are no ticks. */
  readonly ticklabelstandoff?: number;
  readonly automargin?: boolean;
}

export interface Annotation {
  readonly x: number;
  readonly y: number;
  readonly xref?: string;
  readonly yref?: string;
  readonly text: string;
  readonly showarrow: boolean;
  readonly ax?: number;
  readonly ay?: number;
  readonly arrowhead?: number;
  readonly arrowwidth?: number;
  readonly arrowcolor?: string;
  readonly xanchor?: 'left' | 'center' | 'right';
  readonly yanchor?: 'top' | 'middle' | 'bottom';
  readonly xshift?: number;
  readonly yshift?: number;
  readonly align?: 'left';
  readonly bgcolor?: string;
  readonly font?: FontSpec;
}

export interface Shape {
  readonly type: 'line' | 'rect';
  readonly x0: number;
  readonly x1: number;
  readonly y0: number;
  readonly y1: number;
  readonly xref?: string;
  readonly yref?: string;
  readonly fillcolor?: string;
  readonly layer?: 'below' | 'above';
  readonly line?: LineSpec;
}

export type Margin = Readonly<Record<'l' | 'r' | 't' | 'b', number>>;

/** Axes are keyed xaxis, xaxis2, yaxis … as plotly wants them. */
export type AxisKey = `${'x' | 'y'}axis${'' | number}`;

export type Layout = {
  readonly height: number;
  readonly margin?: Partial<Margin>;
  readonly barmode?: 'stack' | 'overlay';
  readonly showlegend?: boolean;
  readonly legend?: { readonly x: number; readonly y: number; readonly entrywidth?: number };
  readonly annotations?: readonly Annotation[];
  readonly shapes?: readonly Shape[];
} & { readonly [key in AxisKey]?: Axis };
