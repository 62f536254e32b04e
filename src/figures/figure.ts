import { DISPLAY, type DisplayBundle } from '../core';
import type { DataFrame } from './frame';
import {
  DARK,
  firstColumns,
  hasFullWidth,
  LIGHT,
  plain,
  safe,
  soft,
  strong,
  type Theme,
  textWidth,
  wrapped,
} from './grammar/ink';
import type { Layout, Trace } from './grammar/plotly';
import { MARGIN, STATIC_WIDTH, SUBTITLE_SIZE, TEMPLATE } from './grammar/template';
import { saveFile } from './save-file';
import { imageHtml, inlineSvg } from './static/page-svg';
import { toPng, toSmallPng } from './static/png';
import { type Drawing, toSvg } from './static/static-svg';
import type { Table } from './table';

/** The parts of a figure. */
interface FigureParts extends Drawing {
  /** The numbers in the picture. */
  readonly table: Table;
  /** The numbers, by name, that a notebook lets its reader guess before it shows this figure. */
  readonly quantities: Quantities;
}

/** A finding with its picture and its numbers. A notebook draws a figure that is a cell's value. */
export interface Figure extends FigureParts {
  /** Returns the same figure with one more line below its subtitle. */
  withNote(note: string): Figure;
  /**
   * Returns plotly's figure, as wide as the static picture. As a cell's value it is interactive: the mouse shows the names and
   * the numbers of marks. JupyterLab needs the Python package plotly for this.
   */
  toPlotly(): PlotlyFigure;
  /** Draws a static picture, 800 pixels wide. */
  toSvg(theme?: Theme): string;
  toPng(theme?: Theme): Buffer;
  /** Returns the picture as a page's HTML, as wide as the page, whose colours follow a light or dark page. */
  toHtml(): string;
  toCsv(): string;
  /**
   * Writes the figure into a file. The ending of the file's name chooses the form: .png and .svg are pictures, .json is
   * plotly's figure, and .csv has the numbers. Throws: CONFIG for another ending, IO if the file cannot be written.
   */
  save(file: string, options?: SaveOptions): void;
  frame(): Promise<DataFrame>;
  [DISPLAY](): DisplayBundle;
}

/** A number that a figure shows. */
export interface Quantity {
  readonly value: number;
  readonly unit: string;
  /** Returns the sentence that answers a guess, without a full stop; `value` is the number with its unit. */
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
  [DISPLAY]?(): DisplayBundle;
}

/** Options with which a figure is saved. */
export interface SaveOptions {
  /** Whether the picture is for dark pages. Default false. */
  readonly dark?: boolean;
}

/** A finding: a sentence, or several wordings of one finding, the longest first. */
export type Title = string | readonly string[];

/** What `createFigure` needs. */
interface FigureWords extends Omit<FigureParts, 'title' | 'quantities'> {
  /** Of several wordings, the first that fits is the figure's title. */
  readonly title: Title;
  /** The name of the run that the figure is about: the title begins with it, if there is room. */
  readonly runName?: string;
  readonly quantities?: Quantities;
}

/** Makes a figure. */
export function createFigure({ title: wordings, runName = '', ...figure }: FigureWords): Figure {
  const title = titleOf(wordings, runName);
  const parts = withWrappedSubtitle({ quantities: {}, ...figure, title });
  const { table } = parts;
  return {
    ...parts,
    withNote: (note) => createFigure(addNote(parts, note)),
    toPlotly: () => shownByPlotly(plotlyOf(parts), textOf(parts)),
    toSvg: (theme = LIGHT) => toSvg(parts, theme),
    toPng: (theme = LIGHT) => toPng(toSvg(parts, theme)),
    toHtml: () => inlineSvg(parts),
    toCsv: () => table.toCsv(),
    save: (file, options = {}) => saveFigure(parts, file, options),
    frame: () => table.frame(),
    [DISPLAY]: () => displayOf(parts),
  };
}

/** Pixels of a notebook's PNG per pixel of the figure. */
const PNG_SCALE = 2;

function displayOf(parts: FigureParts): DisplayBundle {
  const svg = toSvg(parts, LIGHT);
  return {
    'text/html': imageHtml(parts, svg),
    // For programs that show no HTML, such as LaTeX.
    'image/png': toSmallPng(svg, PNG_SCALE).toString('base64'),
    'text/plain': textOf(parts),
  };
}

function textOf({ title, subtitle, table }: FigureParts): string {
  return `${title}\n${plain(subtitle)}\n${table.toText()}`;
}

/** Makes a notebook show plotly's figure. The method is not enumerable, because plotly's figure is also written as JSON. */
function shownByPlotly(figure: PlotlyFigure, text: string): PlotlyFigure {
  return Object.defineProperty(figure, DISPLAY, {
    value: (): DisplayBundle => ({ 'application/vnd.plotly.v1+json': figure, 'text/plain': text }),
  });
}

function saveFigure(parts: FigureParts, file: string, { dark = false }: SaveOptions): void {
  const theme = dark ? DARK : LIGHT;
  saveFile(file, {
    noun: 'figure',
    example: "fig.save('loss.png')",
    formats: {
      '.png': () => toPng(toSvg(parts, theme)),
      '.svg': () => toSvg(parts, theme),
      '.json': () => `${JSON.stringify(plotlyOf(parts))}\n`,
      '.csv': () => parts.table.toCsv(),
    },
  });
}

function plotlyOf({ title, subtitle, data, layout }: FigureParts): PlotlyFigure {
  return {
    data,
    layout: {
      ...withoutUnusedAxes(layout, data),
      title: { text: strong(safe(title)), subtitle: { text: soft(subtitle) } },
      width: STATIC_WIDTH,
      template: TEMPLATE,
    },
    config: { displaylogo: false, modeBarButtonsToRemove: ['select2d', 'lasso2d'] },
  };
}

/**
 * Removes every axis that no trace uses, except the first x axis and the first y axis. Figures of empty runs have unused axes,
 * and plotly warns about them.
 */
function withoutUnusedAxes(layout: Layout, data: readonly Trace[]): Record<string, unknown> {
  const axes = new Set(data.flatMap(({ xaxis, yaxis }) => [xaxis, yaxis]));
  const isUnused = (key: string): boolean => /axis\d+$/.test(key) && !axes.has(key.replace('axis', ''));
  return Object.fromEntries(Object.entries(layout).filter(([key]) => !isUnused(key)));
}

const NOTE_HEIGHT = 16;

function addNote(parts: FigureParts, note: string): FigureParts {
  return { ...withRoom(parts, 1), subtitle: `${parts.subtitle}<br>${note}` };
}

/** Adds room for lines of the subtitle above the plot. */
function withRoom(parts: FigureParts, numLines: number): FigureParts {
  const { layout } = parts;
  const room = numLines * NOTE_HEIGHT;
  const top = (layout.margin?.t ?? MARGIN.t) + room;
  return {
    ...parts,
    layout: { ...layout, height: layout.height + room, margin: { ...layout.margin, t: top } },
  };
}

/** The pixels that a line of the subtitle may have in our font; the font of a page may be a tenth wider. */
const SUBTITLE_WIDTH = (STATIC_WIDTH - 16) / 1.1;

/** Breaks lines of the subtitle that are wider than the picture, at spaces. */
function withWrappedSubtitle(parts: FigureParts): FigureParts {
  const before = parts.subtitle.split('<br>');
  const lines = before.flatMap(wrappedLine);
  return lines.length === before.length
    ? parts
    : { ...withRoom(parts, lines.length - before.length), subtitle: lines.join('<br>') };
}

function wrappedLine(line: string): string[] {
  if (hasFullWidth(line)) return wrapped(line, SUBTITLE_SIZE, SUBTITLE_WIDTH);
  const lines: string[] = [];
  for (const word of line.split(' ')) {
    const longer = `${lines.at(-1) ?? ''} ${word}`;
    const hasRoom = lines.length > 0 && textWidth(longer, SUBTITLE_SIZE) <= SUBTITLE_WIDTH;
    if (hasRoom) lines[lines.length - 1] = longer;
    else lines.push(word);
  }
  return lines;
}

const MAX_TITLE = 75;

/**
 * Returns the first wording that fits into a title after the run's name, else without it; if no wording fits, cuts the last
 * wording.
 */
function titleOf(title: Title, runName: string): string {
  const wordings = typeof title === 'string' ? [title] : title;
  const named = wordings.map((wording) =>
    runName === '' || hasName(wording, runName) ? wording : `${runName} · ${wording}`,
  );
  const fitting = [...named, ...wordings].find((wording) => firstColumns(wording, MAX_TITLE) === wording);
  if (typeof title === 'string') return fitting ?? title;
  return fitting ?? `${firstColumns(title.at(-1) ?? '', MAX_TITLE - 1)}…`;
}

/** Whether a wording has a run's name as whole words: the name 'A' is not in 'All ranks'. */
function hasName(wording: string, name: string): boolean {
  const parts = wording.split(name);
  const isWord = (character: string): boolean => /[\p{L}\p{N}_]/u.test(character);
  return parts.some((part, i) => i > 0 && !isWord(part[0] ?? ' ') && !isWord(parts[i - 1]?.at(-1) ?? ' '));
}
