import { fields, requireKind } from '../config';
import { ConfigError, classOf, shown } from '../core';
import { createFigure, type Figure } from './figure';
import { paddedRange } from './grammar/axes';
import type { Axis, AxisKey, Layout, Trace } from './grammar/plotly';
import { createTable, type Table } from './table';

/** The parts of a user's own figure; only `title` and `data` are required. */
export interface OwnFigure {
  /** The finding, at most 75 characters. */
  readonly title: string;
  readonly subtitle?: string | undefined;
  /** Plotly's traces of the types 'scatter' and 'bar', with numbers as x and y. */
  readonly data: readonly Trace[];
  /** Plotly's layout. Default: 360 pixels high; axes without a range show all values. */
  readonly layout?: Partial<Layout> | undefined;
  /** The numbers in the picture. Default: x and y of all traces. */
  readonly table?: Table | undefined;
}

const HEIGHT = 360;

/**
 * Draws plotly's traces in the style of all figures. A notebook shows the figure interactively, or as a PNG if there is no plotly.
 * Throws: CONFIG for traces that the static picture cannot show.
 */
export function ownFigure(figure: OwnFigure): Figure {
  requireKind('plot', 'the figure', figure, fields);
  const { title, subtitle = '', data, layout = {}, table } = figure;
  if (typeof title !== 'string') throw new ConfigError(`plot: title is ${classOf(title)}; give a text`);
  if (!Array.isArray(data)) {
    throw new ConfigError(`plot: data is ${classOf(data)}; give an array of plotly's traces`);
  }
  data.forEach(checkTrace);
  const ids = ['x', 'y', ...data.flatMap(({ xaxis = 'x', yaxis = 'y' }: Trace) => [xaxis, yaxis])];
  const axes = Object.fromEntries([...new Set(ids)].map((id) => [keyOf(id), axisOf(id, data, layout)]));
  const rows = data.flatMap((trace: Trace, i) =>
    trace.x.map((x, k) => ({ trace: trace.name ?? String(i + 1), x, y: trace.y[k] ?? null })),
  );
  return createFigure({
    title,
    subtitle,
    data,
    layout: { height: HEIGHT, ...layout, ...axes },
    table: table ?? createTable(rows),
  });
}

function checkTrace(trace: unknown, i: number): void {
  const { type, x, y } = (trace ?? {}) as Partial<Record<keyof Trace, unknown>>; // `trace` may be any value
  const what = `plot: data[${i}]`;
  if (type !== 'scatter' && type !== 'bar') {
    throw new ConfigError(`${what}.type is ${shown(type)}; choose 'scatter' or 'bar'`);
  }
  for (const [key, values] of Object.entries({ x, y })) {
    if (Array.isArray(values) && values.every((value) => typeof value === 'number')) continue;
    throw new ConfigError(
      `${what}.${key} must be an array of numbers; write names as layout.${key}axis: { tickvals: [0, 1], ticktext: ['a', 'b'] }`,
    );
  }
  const [xs, ys] = [x, y] as number[][]; // both are arrays of numbers: checked above
  if (xs?.length === ys?.length) return;
  throw new ConfigError(
    `${what} has ${xs?.length} x values and ${ys?.length} y values; give one y value per x value`,
  );
}

/** Returns an axis's key in the layout: 'xaxis2' for the axis 'x2'. */
function keyOf(id: string): AxisKey {
  return `${id[0] === 'x' ? 'x' : 'y'}axis${id.slice(1)}` as AxisKey; // ids are 'x', 'y', 'x2' and so on
}

/** Returns an axis, with the range of its traces if the layout gives none. */
function axisOf(id: string, data: readonly Trace[], layout: Partial<Layout>): Axis {
  const ownAxis = layout[keyOf(id)] ?? {};
  const isX = id.startsWith('x');
  const shown = data.filter(({ xaxis = 'x', yaxis = 'y' }) => (isX ? xaxis : yaxis) === id);
  const values = shown.flatMap((trace) => [...(isX ? trace.x : trace.y)]);
  const areLengths = shown.some((trace) => trace.type === 'bar' && (trace.orientation === 'h') === isX);
  if (!areLengths) return { range: paddedRange(values, 0.05), ...ownAxis };
  // Bars begin at 0.
  const [low, high] = paddedRange([0, ...values], 0.05);
  const [least, most] = [
    values.some((value) => value < 0) ? low : 0,
    values.some((value) => value > 0) ? high : 0,
  ];
  return { range: [least, most], ...ownAxis };
}
