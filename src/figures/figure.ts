import type { DataFrame } from './frame';
import { LIGHT, plain, soft, strong, type Theme } from './grammar/ink';
import type { Layout, Trace } from './grammar/plotly';
import { MARGIN, STATIC_WIDTH, TEMPLATE } from './grammar/template';
import { toPng } from './static/png';
import { type Drawing, toSvg } from './static/static-svg';
import { DISPLAY, type DisplayBundle, type Table } from './table';

/** What a figure is made of. */
interface FigureParts extends Drawing {
  /** The numbers in the picture. */
  readonly table: Table;
  /** Numbers of this figure that one may have guessed, by name. */
  readonly quantities: Quantities;
}

/** A finding with its picture and its numbers. In a notebook it shows itself. */
export interface Figure extends FigureParts {
  /** The same figure with one more line below its subtitle. */
  withNote(note: string): Figure;
  /** Plotly's figure, as wide as the picture. */
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

export function quantity(value: number, unit: string, says: Quantity['says']): Quantity {
  return { value, unit, says };
}

export type Quantities = Readonly<Record<string, Quantity>>;

export interface PlotlyFigure {
  readonly data: readonly Trace[];
  readonly layout: Readonly<Record<string, unknown>>;
  readonly config: Readonly<Record<string, unknown>>;
}

/** Makes a figure. */
export function createFigure(
  given: Omit<FigureParts, 'quantities'> & { readonly quantities?: Quantities },
): Figure {
  const parts = { quantities: {}, ...given };
  const { title, subtitle, table } = parts;
  return {
    ...parts,
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
      'text/plain': `${title}\n${plain(subtitle)}\n${table.toText()}`,
    }),
  };
}

function plotlyOf({ title, subtitle, data, layout }: FigureParts): PlotlyFigure {
  return {
    data,
    layout: {
      ...withoutUnusedAxes(layout, data),
      title: { text: strong(title), subtitle: { text: soft(subtitle) } },
      width: STATIC_WIDTH,
      template: TEMPLATE,
    },
    config: { displaylogo: false, modeBarButtonsToRemove: ['select2d', 'lasso2d'] },
  };
}

/** Plotly complains of further axes that no trace uses; figures of empty runs have such. */
function withoutUnusedAxes(layout: Layout, data: readonly Trace[]): Record<string, unknown> {
  const axes = new Set(data.flatMap(({ xaxis, yaxis }) => [xaxis, yaxis]));
  const isUnused = (key: string): boolean => /axis\d+$/.test(key) && !axes.has(key.replace('axis', ''));
  return Object.fromEntries(Object.entries(layout).filter(([key]) => !isUnused(key)));
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

/** The first of some wordings of a finding that fits a title; if none does, the last one is cut. */
export function titleOf(...wordings: readonly string[]): string {
  const fitting = wordings.find((wording) => wording.length <= MAX_TITLE);
  return fitting ?? `${(wordings.at(-1) ?? '').slice(0, MAX_TITLE - 1)}…`;
}
