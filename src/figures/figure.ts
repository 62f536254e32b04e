import type { DataFrame } from 'danfojs-node';
import { LIGHT, soft, strong, type Theme } from './ink';
import type { Layout, Trace } from './plotly';
import { toPng } from './png';
import { toSvg } from './static-svg';
import { DISPLAY, type DisplayBundle, type Table } from './table';
import { TEMPLATE } from './template';

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
  /** Plotly's figure: no width, so that it fits the page. */
  toPlotly(): PlotlyFigure;
  /** A static picture, 800 pixels wide. */
  toSvg(theme?: Theme): string;
  toPng(theme?: Theme): Buffer;
  toCsv(): string;
  frame(): Promise<DataFrame>;
  [DISPLAY](): DisplayBundle;
}

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
}

/** Makes a figure. */
export function createFigure(parts: FigureParts): Figure {
  const { title, table } = parts;
  const figure: Figure = {
    ...parts,
    toPlotly: () => plotlyOf(parts),
    toSvg: (theme = LIGHT) => toSvg(parts, theme),
    toPng: (theme = LIGHT) => toPng(toSvg(parts, theme)),
    toCsv: () => table.toCsv(),
    frame: () => table.frame(),
    [DISPLAY]: () => ({
      'application/vnd.plotly.v1+json': plotlyOf(parts),
      'image/png': toPng(toSvg(parts, LIGHT)).toString('base64'),
      'text/plain': `${title}\n${parts.subtitle}\n${table.toText()}`,
    }),
  };
  return figure;
}

function plotlyOf({ title, subtitle, data, layout }: FigureParts): PlotlyFigure {
  return {
    data,
    layout: {
      ...layout,
      title: { text: strong(title), subtitle: { text: soft(subtitle) } },
      autosize: true,
      template: TEMPLATE,
    },
    config: { responsive: true, displaylogo: false },
  };
}

const MAX_TITLE = 75;

/** The first of some wordings of a finding that fits a title; the last is cut where none does. */
export function titleOf(...wordings: readonly string[]): string {
  const fitting = wordings.find((wording) => wording.length <= MAX_TITLE);
  return fitting ?? `${(wordings.at(-1) ?? '').slice(0, MAX_TITLE - 1)}…`;
}
