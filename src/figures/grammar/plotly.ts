import type { Fill, Pattern } from './palette';

// The part of plotly's figure format that our figures use and the static writer draws. All axes are numeric;
// names are texts of ticks.

type Optional<K extends string, T> = { readonly [key in K]?: T };

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

export interface Outline {
  readonly width: number;
  readonly color?: string;
}

type TraceBase = Optional<'name' | 'xaxis' | 'yaxis' | 'hovertemplate' | 'legendgroup', string> & {
  readonly x: readonly number[];
  readonly y: readonly number[];
  readonly text?: readonly string[];
  readonly hoverinfo?: 'skip';
  readonly showlegend?: boolean;
};

export type ScatterTrace = TraceBase & {
  readonly type: 'scatter';
  readonly mode: 'lines' | 'markers' | 'lines+markers';
  readonly line?: LineSpec;
  readonly marker?: Marker;
  readonly stackgroup?: string;
  /** If set, the line is closed, and its inside is filled with `fillcolor`. */
  readonly fill?: 'toself';
  readonly fillcolor?: string;
  readonly fillpattern?: Pattern;
  readonly hoveron?: 'points+fills';
};

export interface Marker {
  readonly size: number;
  readonly color: string;
  /** Default: circle. */
  readonly symbol?: MarkerSymbol;
  readonly opacity?: number;
  /** The outline of open symbols; the outline has the colour of the marker. */
  readonly line?: Outline;
}

export type MarkerSymbol =
  | 'circle'
  | 'circle-open'
  | 'square'
  | 'diamond'
  | 'diamond-open'
  | 'triangle-up'
  | 'x'
  | 'line-ew-open';

export type BarTrace = TraceBase & {
  readonly type: 'bar';
  readonly orientation?: 'h';
  readonly base?: readonly number[];
  readonly width?: number;
  readonly marker: Fill & { readonly line?: Outline };
  readonly customdata?: readonly (string | number)[];
  readonly textposition?: 'inside';
  readonly insidetextanchor?: 'middle';
  readonly textangle?: number;
  readonly constraintext?: 'none';
  readonly textfont?: FontSpec;
};

export type Trace = ScatterTrace | BarTrace;

export type Axis = Optional<'domain' | 'range', readonly [number, number]> &
  Optional<'visible' | 'showgrid' | 'showticklabels' | 'zeroline' | 'fixedrange' | 'automargin', boolean> &
  Optional<'anchor' | 'zerolinecolor' | 'gridcolor' | 'linecolor' | 'tickcolor', string> & {
    readonly tickvals?: readonly number[];
    readonly ticktext?: readonly string[];
    readonly ticks?: '' | 'outside';
    readonly ticklen?: number;
    readonly tickfont?: FontSpec;
    /** The distance between labels and axis, in pixels, if there are no ticks. */
    readonly ticklabelstandoff?: number;
    readonly title?: { readonly text: string; readonly standoff?: number; readonly font?: FontSpec };
  };

/** The axes (or 'paper') to which the coordinates of a shape or a text refer. */
type Refs = Optional<'xref' | 'yref', string>;

export type Annotation = Refs &
  Optional<'ax' | 'ay' | 'arrowhead' | 'arrowwidth' | 'xshift' | 'yshift', number> &
  Optional<'arrowcolor' | 'bgcolor', string> & {
    readonly x: number;
    readonly y: number;
    readonly text: string;
    readonly showarrow: boolean;
    readonly xanchor?: 'left' | 'center' | 'right';
    readonly yanchor?: 'top' | 'middle' | 'bottom';
    readonly align?: 'left';
    readonly font?: FontSpec;
  };

export type Shape = Refs &
  Readonly<Record<'x0' | 'x1' | 'y0' | 'y1', number>> & {
    readonly type: 'line' | 'rect';
    readonly fillcolor?: string;
    readonly layer?: 'below';
    readonly line?: LineSpec;
  };

export type Margin = Readonly<Record<'l' | 'r' | 't' | 'b', number>>;

/** The keys of axes are xaxis, xaxis2, yaxis and so on, as in plotly. */
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
