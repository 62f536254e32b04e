import { published, type ReproducedRow } from '../../planner';
import { createFigure, type Figure, quantity, type Title } from '../figure';
import { percent } from '../format';
import { log10, logRange, logTicks, titled } from '../grammar/axes';
import { safe, soft, strong, textWidth, wrapped } from '../grammar/ink';
import { dots, line, note, ruleX, SILENT } from '../grammar/marks';
import { NEUTRAL } from '../grammar/palette';
import { plot } from '../grammar/plot';
import type { Annotation, ScatterTrace, Shape } from '../grammar/plotly';
import type { Table } from '../table';

const FRAME = { top: 74, right: 78, foot: 50, legend: 'plot' } as const;
/** A table with at most this number of figures has the names of its rows. */
const MOST_NAMED = 40;
/** The height of a named row; of others, the height per row and its limits, all in pixels. */
const NAMED_ROW = 17;
const [PER_ROW, LEAST, MOST] = [2, 22, 72] as const;
/** The space between two tables. */
const GAP = 10;
/** The most pixels that names may take. */
const NAMES = 250;
const COLORS = { inside: '#2362AC', outside: '#B3401A' } as const;

/** A figure's mark: a dot at predicted ÷ published, with its interval as a line. */
interface Mark {
  readonly row: ReproducedRow;
  readonly y: number;
}

/** The marks of a table, from the largest ratio to the smallest one, and its place in pixels. */
interface Group {
  readonly title: string;
  readonly rows: readonly ReproducedRow[];
  readonly top: number;
  readonly bottom: number;
  readonly marks: readonly Mark[];
}

/**
 * Draws predicted ÷ published of each figure as a dot, with its predicted interval as a line, and a rule at 1, where the published figures are.
 * Figures are grouped by table. A single table with few rows has the names of its rows, in its own order.
 */
export function reproducedFigure(
  rows: readonly ReproducedRow[],
  { table, subtitle }: { readonly table: Table; readonly subtitle: string },
): Figure {
  const names = [...new Set(rows.map((row) => row.table))];
  const isNamed = names.length === 1 && rows.length <= MOST_NAMED;
  const groups = isNamed ? namedGroups(rows) : tableGroups(rows);
  const pixels = Math.max(0, ...groups.map(({ bottom }) => bottom));
  const range = logRange(
    rows.flatMap(({ published: figure, low, high }) => [1, low / figure, high / figure]),
    0.03,
  );
  const marks = groups.flatMap((group) => group.marks);
  const left = 16 + Math.max(...groups.map(({ title }) => textWidth(title, 11)));
  return createFigure({
    title: findingOf(rows),
    subtitle,
    ...plot({ ...FRAME, left, pixels }, [
      {
        x: {
          range,
          ...logTicks(10 ** range[0], 10 ** range[1], (value) => `${value}×`, 9),
          ...titled('predicted ÷ published'),
        },
        y: {
          range: [pixels, 0],
          showgrid: false,
          ticks: '',
          ticklabelstandoff: 5,
          tickvals: groups.map(({ top, bottom }) => (top + bottom) / 2),
          ticktext: groups.map(({ title }) => strong(safe(title))),
        },
        data: [...intervals(groups), ...dotsOf(marks)],
        shapes: [
          ruleX(0, [pixels, 0], { width: 1.2, color: NEUTRAL }),
          ...(isNamed ? [] : between(groups, range)),
        ],
        annotations: isNamed ? [] : groups.map(insideText),
      },
    ]),
    table,
    quantities: {
      inside: quantity(
        100 * insideShare(rows),
        '%',
        (share) => `${share} of the published figures are inside the predicted interval`,
      ),
      medianError: quantity(
        100 * published.summaryOf(rows).medianError,
        '%',
        (share) => `the median error of the predictions is ${share}`,
      ),
    },
  });
}

function namedGroups(rows: readonly ReproducedRow[]): readonly Group[] {
  return rows.map((row, i) => {
    const [top, bottom] = [i * NAMED_ROW, (i + 1) * NAMED_ROW];
    const subject = row.subject === 'memory' ? ', memory' : '';
    const title = firstLine(`${rowName(row)}${subject}`);
    return { title, rows: [row], top, bottom, marks: [{ row, y: (top + bottom) / 2 }] };
  });
}

/** Returns a name, or as much of it as fits. */
function firstLine(name: string): string {
  const [first = '', ...rest] = wrapped(name, 11, NAMES);
  return rest.length === 0 ? first : `${first} …`;
}

/** A row without a name has the number of its row; its layout says more. */
function rowName({ row, layout }: ReproducedRow): string {
  return /^\d+$/.test(row) ? `${row}: ${layout.model.name}, ${layout.gpus} x ${layout.hardware.name}` : row;
}

function tableGroups(rows: readonly ReproducedRow[]): readonly Group[] {
  const names = [...new Set(rows.map(({ table }) => table))];
  let at = 0;
  return names.map((name) => {
    const own = rows.filter(({ table }) => table === name).toSorted((a, b) => b.ratio - a.ratio);
    const height = Math.min(MOST, Math.max(LEAST, own.length * PER_ROW));
    const top = at;
    at += height + GAP;
    const step = height / own.length;
    return {
      title: published.sourceOf(name).title,
      rows: own,
      top,
      bottom: top + height,
      marks: own.map((row, i) => ({ row, y: top + (i + 0.5) * step })),
    };
  });
}

/** Writes how many figures of a table are inside, right of the panel. */
function insideText({ rows, top, bottom }: Group): Annotation {
  const { inside, figures } = published.summaryOf(rows);
  const count = `${inside.toLocaleString('en-US')} of ${figures.toLocaleString('en-US')}`;
  return note(1, (top + bottom) / 2, soft(count), { xref: 'paper', xshift: 4 });
}

function between(groups: readonly Group[], [x0, x1]: readonly [number, number]): readonly Shape[] {
  return groups.slice(0, -1).map(({ bottom }) => {
    const y = bottom + GAP / 2;
    return { type: 'line', x0, x1, y0: y, y1: y, line: { width: 0.5, color: 'rgba(128,128,128,.4)' } };
  });
}

/** Draws the intervals of all marks; where rows are dense, the lines are lighter, so that an area of lines is not black. */
function intervals(groups: readonly Group[]): ScatterTrace[] {
  return LOOKS.flatMap((look, i) => {
    const marks = groups
      .filter(({ rows, top, bottom }) => lookOf((bottom - top) / rows.length) === i)
      .flatMap((group) => group.marks.filter(({ row }) => row.low < row.high));
    if (marks.length === 0) return [];
    const points = {
      x: marks.flatMap(({ row }) => [
        log10(row.low / row.published),
        log10(row.high / row.published),
        Number.NaN,
      ]),
      y: marks.flatMap(({ y }) => [y, y, Number.NaN]),
    };
    return [line(points, look.line, SILENT)];
  });
}

/** The lines of intervals by the pixels that a row has at least. */
const LOOKS = [
  { pixels: 2, line: { width: 1.2, color: '#8a8a8a' } },
  { pixels: 0.4, line: { width: 1, color: 'rgba(128,128,128,.4)' } },
  { pixels: 0, line: { width: 0.6, color: 'rgba(128,128,128,.08)' } },
] as const;

function lookOf(pixels: number): number {
  return LOOKS.findIndex((look) => pixels >= look.pixels);
}

/** Draws the dots: blue inside the interval and red outside of it; filled if no constant was fitted on the figure. */
function dotsOf(marks: readonly Mark[]): ScatterTrace[] {
  const size = marks.length > 200 ? 4 : 6;
  return (['inside', 'outside'] as const).flatMap((place) =>
    [false, true].flatMap((isFitted) => {
      const some = marks.filter(
        ({ row }) => row.isInside === (place === 'inside') && row.isFitted === isFitted,
      );
      const items = some.map(({ row, y }) => ({ x: log10(row.ratio), y, text: hover(row) }));
      const color = COLORS[place];
      const look = isFitted
        ? ({ size, color, symbol: 'circle-open', line: { width: 1, color } } as const)
        : { size, color };
      const name = soft(`${place} the interval, ${isFitted ? 'fitted on' : 'held out'}`);
      return dots(items, look, { name });
    }),
  );
}

function hover(row: ReproducedRow): string {
  const { predicted, low, high, unit, stated, statedUnit } = row;
  const digits = (value: number): string => String(Number(value.toPrecision(3)));
  const range = low < high ? ` (${digits(low)} to ${digits(high)})` : '';
  return `<b>${safe(rowName(row))}</b>: published ${digits(row.published)} ${unit} (${stated} ${statedUnit}), predicted ${digits(predicted)}${range}`;
}

function insideShare(rows: readonly ReproducedRow[]): number {
  const { figures, inside } = published.summaryOf(rows);
  return inside / Math.max(1, figures);
}

function findingOf(rows: readonly ReproducedRow[]): Title {
  const { figures, inside, medianError } = published.summaryOf(rows);
  const number = (value: number): string => value.toLocaleString('en-US');
  const count = `${number(inside)} of ${number(figures)} published figures are inside the interval`;
  return [
    `${count}; median error ${(100 * medianError).toFixed(1)}%`,
    count,
    `${percent(inside / figures)} of the published figures are inside the interval`,
  ];
}
