import { z } from 'zod';
import { ofKind, parseOptions, type ShapeOf } from '../config';
import { ConfigError, classOf } from '../core';
import { createFigure, type Figure, type Title } from './figure';
import { columnAxis, paddedRange, rowAxis, titled } from './grammar/axes';
import { nameLines, safe, soft, widestLabel, wrappedMarkup } from './grammar/ink';
import { type Bar, bars, columns, dots, endLabel, line, lineColor } from './grammar/marks';
import { type Panel, plot } from './grammar/plot';
import { STATIC_WIDTH } from './grammar/template';
import { createTable } from './table';

/** The numbers of one series: values in order, or points. */
export type Numbers = ArrayLike<number> | { readonly x: ArrayLike<number>; readonly y: ArrayLike<number> };

/** Options of `plot`. */
export interface PlotOptions {
  /** Default: bars for single numbers, else lines. */
  readonly kind?: 'line' | 'bar' | 'scatter' | undefined;
  /** The x values that all series share, or a name for each number. Default: 0, 1, 2, … */
  readonly x?: ArrayLike<number> | readonly string[] | undefined;
  /** The title, of at most 75 characters. Default: a sentence that is computed from the numbers. */
  readonly title?: string | undefined;
  readonly subtitle?: string | undefined;
  readonly xTitle?: string | undefined;
  readonly yTitle?: string | undefined;
}

/** The numbers that `plot` draws: series by name, single numbers by name, or one series. */
export type Plottable = Numbers | Readonly<Record<string, Numbers | number>>;

interface Series {
  readonly name: string;
  readonly x: readonly number[];
  readonly y: readonly number[];
}

const OPTIONS = {
  kind: z.enum(['line', 'bar', 'scatter']),
  x: ofKind<NonNullable<PlotOptions['x']>>({
    words: 'a list of numbers or of names',
    accepts: (value) => Array.isArray(value) || isTyped(value),
  }),
  title: z.string(),
  subtitle: z.string(),
  xTitle: z.string(),
  yTitle: z.string(),
} satisfies ShapeOf<PlotOptions>;
/** A line with more points is thinned, because a picture has fewer pixels than the line has points. */
const MAX_POINTS = 4000;
const FRAME = { top: 68, left: 60, right: 24, pixels: 240, foot: 46 } as const;
const MAX_MARKED = 40;

/**
 * Draws numbers as lines, bars or points. Throws: CONFIG for values that are not numbers, and for series whose x and y have
 * different lengths.
 */
export function plotNumbers(data: Plottable, options: PlotOptions = {}): Figure {
  parseOptions('plot', options, OPTIONS);
  const entries = entriesOf(data);
  const singles = entries.flatMap(([name, value]) => (typeof value === 'number' ? [{ name, value }] : []));
  if (singles.length === entries.length && options.kind !== 'line' && options.kind !== 'scatter') {
    return plotSingles(singles, options);
  }
  const names = namesOf(options.x);
  const series = entries.map(([name, value]) => seriesOf(name, value, options.x));
  const shown = options.kind === 'bar' ? series : series.map(thinned);
  const { panel, foot } =
    options.kind === 'bar' ? barPanel(shown, names, options) : linePanel(shown, names, options);
  return createFigure({
    title: options.title ?? findingOf(series, names, options),
    subtitle: safe(subtitleOf(series, shown, options)),
    ...plot({ ...FRAME, foot, legend: 'plot' }, [panel]),
    table: createTable(
      series.flatMap(({ name, x, y }) =>
        y.map((value, i) => ({ series: name, x: names?.[i] ?? x[i] ?? i, y: value })),
      ),
    ),
  });
}

function entriesOf(data: unknown): [string, unknown][] {
  if (isNumbers(data)) return [['', data]];
  if (typeof data !== 'object' || data === null || Array.isArray(data)) {
    throw new ConfigError(
      `plot draws numbers by name, as sl.plot({ losses }), or one array of numbers; got ${classOf(data)}`,
    );
  }
  const entries = Object.entries(data);
  if (entries.length > 0) return entries;
  throw new ConfigError('plot: there is nothing to draw; give at least one series, as sl.plot({ losses })');
}

function isList(value: unknown): value is ArrayLike<number> {
  return Array.isArray(value) ? value.every((element) => typeof element === 'number') : isTyped(value);
}

function isTyped(value: unknown): value is ArrayLike<number> {
  return (
    ArrayBuffer.isView(value) &&
    'length' in value &&
    !(value instanceof BigInt64Array || value instanceof BigUint64Array)
  );
}

function isNumbers(value: unknown): value is Numbers {
  if (isList(value)) return true;
  if (typeof value !== 'object' || value === null || !('x' in value && 'y' in value)) return false;
  return Object.keys(value).length === 2 && isList(value.x) && isList(value.y);
}

function namesOf(x: PlotOptions['x']): readonly string[] | undefined {
  const list = x === undefined ? [] : Array.from<unknown>(x);
  if (list.length === 0 || !list.every((name) => typeof name === 'string')) return undefined;
  return list;
}

function seriesOf(name: string, value: unknown, x: PlotOptions['x']): Series {
  const what = name === '' ? 'the series' : `"${name}"`;
  if (!isNumbers(value)) {
    throw new ConfigError(
      `plot: ${what} is ${classOf(value)}; give numbers, such as [5.1, 4.2] or { x: [1, 2], y: [5.1, 4.2] }` +
        '; to draw a tensor, give its values: await t.array()',
    );
  }
  const own = 'y' in value;
  const y = Array.from(own ? value.y : value);
  const xs = own ? Array.from<number>(value.x) : x === undefined ? undefined : Array.from<unknown>(x);
  if (xs !== undefined && xs.length !== y.length) {
    throw new ConfigError(
      `plot: ${what} has ${y.length} numbers, but x has ${xs.length}; give as many numbers as x has`,
    );
  }
  const isNumeric = xs?.every((value) => typeof value === 'number') === true;
  return { name, x: y.map((_, i) => (isNumeric ? Number(xs?.[i]) : i)), y };
}

/** Returns every k-th point, and always the last point. */
function thinned({ name, x, y }: Series): Series {
  const every = Math.ceil(y.length / MAX_POINTS);
  if (every <= 1) return { name, x, y };
  const keeps = (_: number, i: number): boolean => i % every === 0 || i === y.length - 1;
  return { name, x: x.filter(keeps), y: y.filter(keeps) };
}

type Names = readonly string[] | undefined;

/** A panel, and the height of the names below the panel. */
interface Footed {
  readonly panel: Panel;
  readonly foot: number;
}

function linePanel(series: readonly Series[], names: Names, options: PlotOptions): Footed {
  const { kind = 'line', xTitle, yTitle } = options;
  const [xs, ys] = [series.flatMap(({ x }) => x), series.flatMap(({ y }) => y)];
  const { axis, foot } =
    names === undefined ? { axis: { range: paddedRange(xs, 0.015) }, foot: FRAME.foot } : nameAxis(names);
  const panel: Panel = {
    x: { ...axis, ...titleIf(xTitle) },
    y: { range: paddedRange(ys, 0.08), ...titleIf(yTitle) },
    data: series.flatMap(({ name, x, y }, i) => {
      const color = lineColor(i);
      const label = name === '' ? { showlegend: false } : { name: soft(safe(name)) };
      if (kind === 'scatter') {
        const points = x.map((at, k) => ({ x: at, y: y[k] ?? Number.NaN, text: `${at}, ${y[k]}` }));
        return dots(points, { size: 6, color }, label);
      }
      const mode = y.length <= MAX_MARKED ? 'lines+markers' : 'lines';
      const hovertemplate = '%{x}: <b>%{y}</b><extra>%{fullData.name}</extra>';
      return [
        line({ x, y }, { width: 2, color }, { mode, marker: { size: 5, color }, ...label, hovertemplate }),
      ];
    }),
  };
  return { panel, foot };
}

function barPanel(series: readonly Series[], names: Names, options: PlotOptions): Footed {
  const count = Math.max(1, ...series.map(({ y }) => y.length));
  const width = 0.76 / series.length;
  const { axis, foot } = nameAxis(
    names ?? Array.from({ length: count }, (_, i) => String(series[0]?.x[i] ?? i)),
  );
  const values = series.flatMap(({ y }) => y.filter(Number.isFinite));
  const [low, high] = paddedRange([0, ...values], 0.06);
  const panel: Panel = {
    x: { ...axis, ...titleIf(options.xTitle) },
    y: { range: [values.some((value) => value < 0) ? low : 0, high], ...titleIf(options.yTitle) },
    data: series.map(({ name, y }, i) => {
      const items = y.map((length, at): Bar => ({ at: at + (i - (series.length - 1) / 2) * width, length }));
      const style = { fill: { color: lineColor(i) }, width: width * 0.92, hover: '<b>%{y}</b>' };
      return columns(items, name === '' ? style : { ...style, name: safe(name) });
    }),
  };
  return { panel, foot };
}

const LABEL = { size: 11, height: 14, least: 34 } as const;

/**
 * Returns an axis with names below, in as many lines as they need; if there are very many names, the axis shows every k-th
 * name.
 */
function nameAxis(names: readonly string[]) {
  const slot = (STATIC_WIDTH - FRAME.left - FRAME.right) / names.length;
  const every = Math.ceil(LABEL.least / slot);
  const texts = names.map((name, i) =>
    i % every === 0 ? wrappedMarkup(name, LABEL.size, slot * every * 0.9, (part) => soft(safe(part))) : '',
  );
  const numLines = Math.max(...texts.map((text) => text.split('<br>').length));
  return { axis: columnAxis(texts, names.length), foot: FRAME.foot + (numLines - 1) * LABEL.height };
}

function findingOf(series: readonly Series[], names: Names, { kind = 'line', yTitle }: PlotOptions): Title {
  const [only, ...others] = series;
  const labels = series.map(({ name }) => name).filter((name) => name !== '');
  const fallback = [
    labels.length === 0 ? (yTitle ?? 'Own numbers') : labels.join(', '),
    `${series.length} series`,
  ];
  if (kind === 'scatter' || only === undefined) return fallback;
  if (kind === 'bar') return barFinding(series, names) ?? fallback;
  if (others.length > 0) return endsFinding(series) ?? fallback;
  const finite = only.y.filter(Number.isFinite);
  const [from, to] = [finite[0], finite.at(-1)];
  if (from === undefined || to === undefined || finite.length < 2) return fallback;
  const verb = to < from ? 'falls' : to > from ? 'rises' : 'begins and ends at the same value:';
  const path = to === from ? exact(from) : `from ${exact(from)} to ${exact(to)}`;
  return [`${labels[0] ?? yTitle ?? 'The series'} ${verb} ${path}`, `It ${verb} ${path}`];
}

/** Says which of several lines ends lowest and which ends highest. */
function endsFinding(series: readonly Series[]): Title | undefined {
  const ends = series
    .map(({ name, y }) => ({ name, value: y.findLast(Number.isFinite) ?? Number.NaN }))
    .sort((a, b) => a.value - b.value);
  const [least, most] = [ends[0], ends.at(-1)];
  if (least === undefined || most === undefined || ends.some(({ value }) => Number.isNaN(value)))
    return undefined;
  const [low, high] = [exact(least.value), exact(most.value)];
  if (low === high)
    return [`${joined(ends.map(({ name }) => name))} end at ${low}`, `All lines end at ${low}`];
  return [
    `${least.name} ends lowest (${low}), ${most.name} ends highest (${high})`,
    `The lines end at values from ${low} to ${high}`,
  ];
}

/** Says which column is highest. */
function barFinding(series: readonly Series[], names: Names): Title | undefined {
  const columns = series.flatMap(({ name, x, y }) =>
    y.map((value, i) => ({
      value,
      place: [name, names?.[i] ?? String(x[i] ?? i)].filter((part) => part !== ''),
    })),
  );
  const [most] = columns.filter(({ value }) => Number.isFinite(value)).sort((a, b) => b.value - a.value);
  if (most === undefined) return undefined;
  const finding = `The highest value is ${exact(most.value)}`;
  return [`${finding}: ${most.place.join(', ')}`, finding];
}

function joined(names: readonly string[]): string {
  return names.length < 2 ? names.join('') : `${names.slice(0, -1).join(', ')} and ${names.at(-1)}`;
}

function subtitleOf(all: readonly Series[], shown: readonly Series[], options: PlotOptions): string {
  const [whole, drawn] = [all, shown].map((list) => list.reduce((sum, { y }) => sum + y.length, 0));
  const thin =
    whole === drawn
      ? ''
      : `${drawn?.toLocaleString('en-US')} of ${whole?.toLocaleString('en-US')} points are drawn.`;
  const missing = all.flatMap(({ y }) => y.filter((value) => !Number.isFinite(value))).length;
  const gaps =
    missing === 0
      ? ''
      : missing === 1
        ? '1 value is not finite and leaves a gap.'
        : `${missing} values are not finite and leave gaps.`;
  return [options.subtitle ?? '', thin, gaps].filter((part) => part !== '').join(' ');
}

/** A number with its name. */
interface Single {
  readonly name: string;
  readonly value: number;
}

const BAR_ROW = 30;
const LINE = 14;
/** The width of a bar's name, in pixels. */
const MAX_NAME = 280;

interface Words {
  readonly title?: string | undefined;
  readonly subtitle?: string | undefined;
  readonly xTitle?: string | undefined;
  readonly yTitle?: string | undefined;
}

/** Draws single numbers as bars, one below the other, with their values. */
function plotSingles(singles: readonly Single[], options: Words): Figure {
  const names = singles.map(({ name }) => nameLines(name, MAX_NAME));
  const lines = names.map((name) => name.split('<br>'));
  const left = Math.max(60, widestLabel(lines.flat()) + 16);
  const row = Math.max(BAR_ROW, ...lines.map((parts) => parts.length * LINE + 8));
  const [low, high] = paddedRange([0, ...singles.map(({ value }) => value)], 0);
  const items = singles.map(({ value }, at) => ({ at, length: value }));
  return createFigure({
    title: options.title ?? singlesFinding(singles),
    subtitle: safe(options.subtitle ?? ''),
    ...plot({ top: 68, left, right: 90, pixels: singles.length * row + 8, foot: 46 }, [
      {
        x: { range: [low, high + (high - low) * 0.02], ...titleIf(options.yTitle ?? options.xTitle) },
        y: rowAxis(names),
        data: [bars(items, { fill: { color: lineColor(0) }, hover: '<b>%{x}</b>' })],
        annotations: singles.map(({ value }, at) => endLabel(Math.max(0, value), at, exact(value))),
      },
    ]),
    table: createTable(singles.map(({ name, value }) => ({ name, value }))),
  });
}

function singlesFinding(singles: readonly Single[]): Title {
  const sorted = singles.filter(({ value }) => Number.isFinite(value)).sort((a, b) => a.value - b.value);
  const [least, most] = [sorted[0], sorted.at(-1)];
  if (least === undefined || most === undefined) return 'No number is finite';
  if (least === most) return [`${most.name}: ${exact(most.value)}`];
  return [
    `${most.name} is highest (${exact(most.value)}), ${least.name} is lowest (${exact(least.value)})`,
    `The numbers are from ${exact(least.value)} to ${exact(most.value)}`,
  ];
}

/** Returns an axis's title, if there is one. */
function titleIf(text: string | undefined) {
  return text === undefined ? {} : titled(safe(text));
}

/** Formats a number with at most four digits. */
function exact(value: number): string {
  if (!Number.isFinite(value)) return String(value);
  // -0 + 0 is 0, so no number is printed as -0.
  return (Number(value.toPrecision(4)) + 0).toLocaleString('en-US', { maximumSignificantDigits: 4 });
}
