import type { DataFrame } from './frame';
import { LIGHT, plain, soft, strong, type Theme } from './grammar/ink';
import type { Layout, Trace } from './grammar/plotly';
import { MARGIN, TEMPLATE } from './grammar/template';
import { toPng } from './static/png';
import { toSvg } from './static/static-svg';
import { DISPLAY, type DisplayBundle, type Table } from './table';

/** A finding with its picture and its numbers. In a notebook it shows itself. */
export interface Figure {
  /** The finding, plain text, at most 75 characters. */
  readonly title: string;
  /** What, where, held or logical bytes. */
  readonly subtitle: string;
  readonly data: readonly Trace[];
  readonly layout: Layout;
  /** The numbers in the picture. */
  readonly table: Table;
  /** Numbers of this figure that one may have guessed, by name. */
  readonly quantities: Quantities;
  /** The same figure with one more line below its subtitle. */
  withNote(note: string): Figure;
  /** Plotly's figure: no width, so that it fits the page. */
  toPlotly(): PlotlyFigure;
  /** A static picture, 800 pixels wide. */
  toSvg(theme?: Theme): string;
  toPng(theme?: Theme): Buffer;
  toCsv(): string;
  frame(): Promise<DataFrame>;
  [DISPLAY](): DisplayBundle;
}

/** A number that a figure shows. */
export interface Quantity {
  readonly value: number;
  readonly unit: string;
  /** The sentence that answers a guess, with the value and its unit in it, without a full stop. */
  readonly says: (value: string) => string;
}

export type Quantities = Readonly<Record<string, Quantity>>;

export interface PlotlyFigure {
  readonly data: readonly Trace[];
  readonly layout: Readonly<Record<string, unknown>>;
  readonly config: Readonly<Record<string, unknown>>;
}

/** What a figure is made of. Title and subtitle are plain text, escaped where they quote names. */
export interface FigureParts {
  readonly title: string;
  readonly subtitle: string;
  readonly data: readonly Trace[];
  readonly layout: Layout;
  readonly table: Table;
  readonly quantities?: Quantities;
}

/** Makes a figure. */
export function createFigure(parts: FigureParts): Figure {
  const { title, table } = parts;
  const figure: Figure = {
    ...parts,
    quantities: parts.quantities ?? {},
    withNote: (note) => createFigure(noted(parts, note)),
    toPlotly: () => plotlyOf(parts),
    toSvg: (theme = LIGHT) => toSvg(parts, theme),
    toPng: (theme = LIGHT) => toPng(toSvg(parts, theme)),
    toCsv: () => table.toCsv(),
    frame: () => table.frame(),
    [DISPLAY]: () => ({
      'application/vnd.plotly.v1+json': plotlyOf(parts),
      // Notebooks show this picture until plotly draws. [Note: figures on paper]
      'image/png': toPng(toSvg(parts, LIGHT)).toString('base64'),
      'text/plain': `${title}\n${plain(parts.subtitle)}\n${table.toText()}`,
    }),
  };
  return figure;
}

function plotlyOf({ title, subtitle, data, layout }: FigureParts): PlotlyFigure {
  return {
    data,
    layout: {
      ...needed(layout, data),
      title: { text: strong(title), subtitle: { text: soft(subtitle) } },
      autosize: true,
      template: TEMPLATE,
    },
    config: { responsive: true, displaylogo: false, modeBarButtonsToRemove: ['select2d', 'lasso2d'] },
  };
}

/** Plotly complains of axes, legends and bar settings that no trace uses; figures of empty runs have such. */
function needed(layout: Layout, data: readonly Trace[]): Record<string, unknown> {
  const hasBars = data.some(({ type }) => type === 'bar');
  const axes = new Set(data.flatMap(({ xaxis = 'x', yaxis = 'y' }) => [xaxis, yaxis]));
  const isNeeded = (key: string): boolean => {
    const axis = /^([xy])axis(\d+)$/.exec(key);
    if (axis !== null) return axes.has(`${axis[1]}${axis[2]}`);
    if (key === 'legend') return data.length > 0;
    return hasBars || (key !== 'barmode' && key !== 'bargap');
  };
  return Object.fromEntries(Object.entries(layout).filter(([key]) => isNeeded(key)));
}

const NOTE_HEIGHT = 16;

function noted(parts: FigureParts, note: string): FigureParts {
  const { layout, subtitle } = parts;
  const top = (layout.margin?.t ?? MARGIN.t) + NOTE_HEIGHT;
  return {
    ...parts,
    subtitle: `${subtitle}<br>${note}`,
    layout: { ...layout, height: layout.height + NOTE_HEIGHT, margin: { ...layout.margin, t: top } },
  };
}

const MAX_TITLE = 75;

/** The first of some wordings of a finding that fits a title; the last is cut where none does. */
export function titleOf(...wordings: readonly string[]): string {
  const fitting = wordings.find((wording) => wording.length <= MAX_TITLE);
  return fitting ?? `${(wordings.at(-1) ?? '').slice(0, MAX_TITLE - 1)}…`;
}
