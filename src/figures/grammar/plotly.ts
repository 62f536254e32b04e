import type { Pattern } from './palette';

// The part of plotly's figure format that our figures use, and that the static writer draws. Axes hold numbers;
// names stand at them as tick texts.

export interface FontSpec {
  readonly size?: number;
  readonly color?: string;
  readonly weight?: number;
}

export interface LineSpec {
  readonly width?: number;
  readonly color?: string;
  readonly shape?: 'linear' | 'hv';
  readonly dash?: 'dot' | 'dash';
}

interface TraceBase {
  readonly name?: string;
  readonly xaxis?: string;
  readonly yaxis?: string;
  readonly text?: readonly string[];
  readonly textfont?: { readonly size?: number; readonly color?: string | readonly string[] };
  readonly customdata?: readonly (string | number)[];
  readonly hovertemplate?: string;
  readonly hoverinfo?: 'skip';
  readonly showlegend?: boolean;
  readonly legendgroup?: string;
}

export interface ScatterTrace extends TraceBase {
  readonly type: 'scatter';
  readonly x: readonly number[];
  readonly y: readonly number[];
  readonly mode: 'lines' | 'markers' | 'lines+markers' | 'text';
  readonly line?: LineSpec;
  readonly stackgroup?: string;
  readonly fillcolor?: string;
  readonly fillpattern?: Partial<Pattern>;
  readonly hoveron?: 'points' | 'points+fills';
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
  readonly x: readonly number[];
  readonly y: readonly number[];
  readonly base?: readonly number[];
  readonly width?: number | readonly number[];
  readonly marker: {
    readonly color: string;
    readonly pattern?: Partial<Pattern>;
    readonly line?: { readonly width: number; readonly color?: string };
  };
  readonly textposition?: 'inside' | 'none';
  readonly insidetextanchor?: 'middle';
  readonly textangle?: number;
  readonly constraintext?: 'none';
  readonly cliponaxis?: boolean;
}

export type Trace = ScatterTrace | BarTrace;

export interface Axis {
  readonly domain?: readonly [number, number];
  readonly range?: readonly [number, number];
  readonly autorange?: boolean;
  readonly anchor?: string;
  readonly visible?: boolean;
  readonly showgrid?: boolean;
  readonly showticklabels?: boolean;
  readonly zeroline?: boolean;
  readonly zerolinecolor?: string;
  readonly tickvals?: readonly number[];
  readonly ticktext?: readonly string[];
  readonly tickprefix?: string;
  readonly ticksuffix?: string;
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

export interface Margin {
  readonly l: number;
  readonly r: number;
  readonly t: number;
  readonly b: number;
}

export interface Legend {
  readonly orientation?: 'h' | 'v';
  readonly x?: number;
  readonly y?: number;
  readonly traceorder?: 'normal';
}

/** Axes are keyed xaxis, xaxis2, yaxis … as plotly wants them. */
export type AxisKey = `${'x' | 'y'}axis${'' | number}`;

export type Layout = {
  readonly height: number;
  readonly margin?: Partial<Margin>;
  readonly barmode?: 'stack' | 'relative' | 'overlay' | 'group';
  readonly bargap?: number;
  readonly showlegend?: boolean;
  readonly legend?: Legend;
  readonly annotations?: readonly Annotation[];
  readonly shapes?: readonly Shape[];
} & { readonly [key in AxisKey]?: Axis };
