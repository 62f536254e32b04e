import { ConfigError, type Seconds, sumOf } from '../../core';
import type { AnyLayout, Estimate, Planned } from '../../planner';
import { createFigure, type Figure, type Quantities, quantity, type Title } from '../figure';
import { inUnit, percent, quoted, type Scaled, short, timeScale } from '../format';
import { safe } from '../grammar/ink';
import { TIME_FILL, type TimeCause } from '../grammar/palette';
import { plotStacks, type StackRow, type StackStyle } from '../grammar/stacks';
import { createTable, type Table } from '../table';
import { layoutName, layoutWords, utilizationText } from './plan-texts';

/** One layout's iteration. */
export interface TimeRow {
  readonly name: string;
  readonly seconds: Readonly<Partial<Record<TimeCause, Seconds>>>;
  /** The iteration's time, with its interval. */
  readonly total: Estimate;
  /** The text at the bar's end, as '41% MFU'. */
  readonly note: string;
}

const TIME_CAUSES = Object.keys(TIME_FILL) as readonly TimeCause[]; // all keys of TIME_FILL

const NOUNS: Readonly<Record<TimeCause, string>> = {
  products: 'matmuls',
  attention: 'attention',
  elementwise: 'element-wise work',
  loss: 'the loss',
  optimizer: 'the optimizer',
  launch: 'launches',
  communication: 'waiting for communication',
  bubble: 'bubbles',
};

function labelOf(cause: TimeCause): string {
  return cause === 'products' ? NOUNS.products : cause;
}

const STYLE: StackStyle<TimeCause> = {
  order: TIME_CAUSES,
  fillOf: (cause) => TIME_FILL[cause],
  label: labelOf,
  hover: (cause) => `<b>${labelOf(cause)}</b> %{customdata:.4s}s<extra></extra>`,
};

const NOTE_ROOM = 96;

/** Draws a plan's iteration time, by cause. */
export function planTime({ layout, prediction }: Planned<AnyLayout>): Figure {
  return timeBreakdown([timeRow(layoutName(layout), { layout, prediction })], layoutWords(layout));
}

/** Draws the time of a `unit` of work by cause: one stacked bar per layout, in the order of `rows`. */
export function timeBreakdown(rows: readonly TimeRow[], subtitle: string, unit = 'iteration'): Figure {
  if (rows.length === 0) throw new ConfigError('no layout to break down; pass at least one');
  const scale = timeScale(Math.max(...rows.map(totalOf)));
  const stackRows = rows.map((row) => stackRow(row, scale));
  const panel = { heading: `One ${unit}`, aside: `, ${scale.unit}`, rows: stackRows, scale };
  return createFigure({
    title: findingOf(rows, unit),
    subtitle,
    ...plotStacks([panel], STYLE, { noteRoom: NOTE_ROOM }),
    table: tableOf(rows),
    quantities: quantitiesOf(rows, unit),
  });
}

function tableOf(rows: readonly TimeRow[]): Table {
  const causes = TIME_CAUSES.filter((cause) => rows.some(({ seconds }) => (seconds[cause] ?? 0) > 0));
  return createTable(
    rows.map(({ name, seconds, total }) => ({
      layout: name,
      seconds: total.value,
      lowSeconds: total.low,
      highSeconds: total.high,
      ...Object.fromEntries(causes.map((cause) => [cause, seconds[cause] ?? 0])),
    })),
  );
}

function totalOf({ seconds }: TimeRow): Seconds {
  return sumOf(TIME_CAUSES, (cause) => seconds[cause] ?? 0);
}

function stackRow(row: TimeRow, scale: Scaled): StackRow<TimeCause> {
  const { low, high } = row.total;
  const range = low < high ? `(${short(low / scale.divisor)}–${short(high / scale.divisor)}) ` : '';
  return { name: row.name, values: row.seconds, note: `${range}${safe(row.note)}` };
}

/** Compares the slowest layout with the fastest for the same work; for a single layout, names the largest cause. */
function findingOf(rows: readonly TimeRow[], unit: string): Title {
  const fastest = rows.reduce((a, b) => (totalOf(b) < totalOf(a) ? b : a));
  const slowest = rows.reduce((a, b) => (totalOf(b) > totalOf(a) ? b : a));
  if (fastest === slowest) {
    const largest = largestBy((cause) => fastest.seconds[cause] ?? 0);
    const share = percent((fastest.seconds[largest] ?? 0) / (totalOf(fastest) || 1)).replace('&lt;', '<');
    const total = totalOf(fastest);
    return [`${capital(NOUNS[largest])}: ${share} of ${inUnit(total, timeScale(total))}`];
  }
  const added = NOUNS[largestBy((cause) => (slowest.seconds[cause] ?? 0) - (fastest.seconds[cause] ?? 0))];
  const scale = timeScale(totalOf(slowest));
  const work = unit.split(' of ')[0] ?? unit;
  const value = (row: TimeRow): string => short(totalOf(row) / scale.divisor);
  const [slow, fast] = [slowest, fastest].map(
    (row) => `${quoted(row.name)} takes ${value(row)} ${scale.unit}`,
  );
  const range = `A ${work} takes ${value(fastest)} to ${value(slowest)} ${scale.unit}`;
  const part = `the largest difference is in ${added}`;
  if (totalOf(slowest) < totalOf(fastest) * 1.005)
    return [`All layouts take ${value(slowest)} ${scale.unit} per ${work}`];
  return [
    `${slow} per ${work}, and ${fast}; ${part}`,
    `${slow} per ${work}, and ${fast}`,
    `${range}; ${part}`,
    range,
  ];
}

function largestBy(size: (cause: TimeCause) => number): TimeCause {
  return TIME_CAUSES.reduce((a, b) => (size(b) > size(a) ? b : a));
}

function capital(text: string): string {
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}`;
}

function quantitiesOf(rows: readonly TimeRow[], unit: string): Quantities {
  const [first] = rows;
  if (first === undefined) return {};
  const total = totalOf(first) || 1;
  const shareOf = (cause: TimeCause, what: string) =>
    quantity(
      ((first.seconds[cause] ?? 0) / total) * 100,
      '%',
      (part) => `with ${quoted(first.name)}, ${part} of the time is spent in ${what}`,
    );
  return {
    commShare: shareOf('communication', 'waiting for communication'),
    bubbleShare: shareOf('bubble', 'the bubble'),
    productShare: shareOf('products', 'matmuls'),
    iterationSeconds: quantity(total, 's', (s) => `one ${unit} takes ${s} with ${quoted(first.name)}`),
  };
}

/** Returns a plan's iteration time as a bar, multiplied by `per`. */
export function timeRow(name: string, { layout, prediction }: Planned<AnyLayout>, per = 1): TimeRow {
  const { time, seconds, mfu } = prediction;
  const causes = { ...time.computeByCause, communication: time.exposedComm, bubble: time.bubble };
  return {
    name,
    seconds: Object.fromEntries(Object.entries(causes).map(([cause, value]) => [cause, value * per])),
    total: { value: seconds.value * per, low: seconds.low * per, high: seconds.high * per },
    note: utilizationText(layout, mfu),
  };
}
