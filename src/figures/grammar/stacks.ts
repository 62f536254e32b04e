import { type Scaled, short } from '../format';
import { rowAxis, rowRange } from './axes';
import { safe, soft, strong } from './ink';
import { type BarItem, bars, endLabel, note, ruleX, swatches } from './marks';
import { type Fill, NEUTRAL } from './palette';
import { type Layer, type Panel, plot } from './plot';
import type { Annotation, BarTrace } from './plotly';
import { STATIC_WIDTH } from './template';
import { fits, textWidth, wrapped, wrappedMarkup } from './text-width';

/** One horizontal bar of segments; negative ones go left from zero. */
export interface StackRow<K extends string> {
  readonly name: string;
  readonly values: Readonly<Partial<Record<K, number>>>;
  /** Said beside the total. */
  readonly note?: string;
}

/** Bars on one axis, below a heading. */
export interface StackPanel<K extends string> {
  /** Bold, then in passing; markup. */
  readonly heading: string;
  readonly aside?: string;
  readonly rows: readonly StackRow<K>[];
  readonly scale: Scaled;
  /** Differences: totals carry their sign. */
  readonly isSigned?: boolean;
  /** Rows of one segment: the total says its number, the segment not again. */
  readonly isSingle?: boolean;
  /** A value that the axis includes, whatever the bars are. */
  readonly reach?: number;
  /** More marks on the same axes. */
  readonly over?: Layer;
}

/** How segments look, bottom to top. */
export interface StackStyle<K extends string> {
  readonly order: readonly K[];
  fillOf(key: K): Fill;
  /** Plotly's template of a segment; its value unscaled is customdata. */
  hover(key: K): string;
}

export interface StackOptions {
  /** Pixels right of the bars for notes beside totals. Default 0. */
  readonly noteRoom?: number;
  /** The share of the width that the bars have. Default all. */
  readonly across?: readonly [number, number];
  /** A panel on the same rows, right of a single panel of bars. */
  readonly beside?: Panel;
}

const TOP = 58;
const ROW = 26;
/** Of a name that takes several. */
const LINE = 13.75;
const HEADING = 24;
const TICKS = 26;
const MARGIN_RIGHT = 56;
const MAX_LEFT = 190;
const LEGEND_GAP = 8;

/** Panels of stacked bars below each other, with their totals and a legend of what occurs. */
export function plotStacks<K extends string>(
  panels: readonly StackPanel<K>[],
  style: StackStyle<K>,
  { noteRoom = 0, across = [0, 1], beside }: StackOptions = {},
) {
  const names = panels.flatMap(({ rows }) => rows.map((row) => textWidth(row.name, 11)));
  const left = Math.min(MAX_LEFT, Math.max(...names) * 1.1 + 14);
  const numLines = panels.flatMap(({ rows }) => rows.map(({ name }) => wrapped(name, 11, left - 14).length));
  const row = Math.max(ROW, Math.max(...numLines) * LINE + 4);
  const pixels = panels.reduce((sum, { rows }) => sum + HEADING + rows.length * row + TICKS, 0);
  const hasNotes = panels.some(({ rows }) => rows.some(({ note }) => note !== undefined));
  const right = hasNotes ? MARGIN_RIGHT + noteRoom : MARGIN_RIGHT;
  const width = (STATIC_WIDTH - left - right) * (across[1] - across[0]);
  let top = 0;
  const drawn = panels.map((panel) => {
    const down = [top + HEADING, top + HEADING + panel.rows.length * row] as const;
    top = down[1] + TICKS;
    return stackPanel(panel, style, {
      left,
      width,
      across,
      domain: [1 - down[1] / pixels, 1 - down[0] / pixels],
    });
  });
  const domain = drawn[0]?.y.domain;
  const others =
    beside === undefined ? [] : [{ ...beside, y: { ...beside.y, ...(domain ? { domain } : {}) } }];
  const seen = style.order.filter((key) => panels.some(({ rows }) => isSeen(key, rows)));
  const frame = { top: TOP, left, right, pixels, foot: LEGEND_GAP, legend: 'edge' } as const;
  return plot(frame, [...drawn, ...others], { data: swatches(seen, style.fillOf, true) });
}

/** Whether any row's segment is more than a hair's breadth. */
function isSeen<K extends string>(key: K, rows: readonly StackRow<K>[]): boolean {
  const longest = Math.max(...rows.map((row) => lengthOf(row)));
  return rows.some(({ values }) => Math.abs(values[key] ?? 0) > longest / 500);
}

function lengthOf<K extends string>({ values }: StackRow<K>): number {
  return Object.values<number | undefined>(values).reduce<number>(
    (sum, value = 0) => sum + Math.abs(value),
    0,
  );
}

interface Place {
  readonly left: number;
  readonly width: number;
  readonly across: readonly [number, number];
  readonly domain: readonly [number, number];
}

function stackPanel<K extends string>(panel: StackPanel<K>, style: StackStyle<K>, place: Place): Panel {
  const { rows, scale, over = {} } = panel;
  const stacks = rows.map(({ values }) => stackOf(values, style.order, scale));
  const low = Math.min(0, ...stacks.map((stack) => stack.low));
  const reach = (panel.reach ?? 0) / scale.divisor;
  const high = Math.max(...stacks.map((stack) => stack.high), reach, low === 0 ? 1e-9 : 0);
  const range = [low * 1.15, high + (high - low) * 0.02] as const;
  const names = rows.map(({ name }) =>
    wrappedMarkup(name, 11, place.left - 14, (line) => strong(safe(line))),
  );
  const perUnit = place.width / (range[1] - range[0]);
  return {
    x: { range, domain: place.across, ...(low < 0 ? { zeroline: true, zerolinecolor: NEUTRAL } : {}) },
    y: { ...rowAxis(names, rowRange(rows.length)), domain: place.domain },
    data: [
      ...style.order.flatMap((key) => segments(key, panel, stacks, style, perUnit)),
      ...(over.data ?? []),
    ],
    heading: panel.heading,
    aside: panel.aside ?? '',
    annotations: [
      ...rows.map((row, i) => totalOf(stacks[i], i, row.note, panel.isSigned === true)),
      ...(over.annotations ?? []),
    ],
    shapes: over.shapes ?? [],
  };
}

interface Stack<K extends string> {
  readonly base: Readonly<Partial<Record<K, number>>>;
  readonly low: number;
  readonly high: number;
}

/** Where each segment begins; negative ones go left from zero. */
function stackOf<K extends string>(
  values: StackRow<K>['values'],
  order: readonly K[],
  scale: Scaled,
): Stack<K> {
  const base: Partial<Record<K, number>> = {};
  let low = 0;
  let high = 0;
  for (const key of order) {
    const value = (values[key] ?? 0) / scale.divisor;
    base[key] = value < 0 ? low : high;
    if (value < 0) low += value;
    else high += value;
  }
  return { base, low, high };
}

function totalOf<K extends string>(
  stack: Stack<K> | undefined,
  row: number,
  aside: string | undefined,
  isSigned: boolean,
): Annotation {
  const { low, high } = stack ?? { low: 0, high: 0 };
  const sum = low + high;
  const said = isSigned ? `${sum > 0 ? '+' : ''}${short(sum)}` : short(high);
  return endLabel(high, row, said, aside);
}

function segments<K extends string>(
  key: K,
  { rows, scale, isSingle }: StackPanel<K>,
  stacks: readonly Stack<K>[],
  style: StackStyle<K>,
  perUnit: number,
): BarTrace[] {
  const items = rows.flatMap(({ values }, row): BarItem[] => {
    const raw = values[key] ?? 0;
    const length = raw / scale.divisor;
    const hasText = isSingle !== true && fits(short(length), 10, Math.abs(length) * perUnit);
    const from = stacks[row]?.base[key] ?? 0;
    return raw === 0 ? [] : [{ row, length, from, text: hasText ? short(length) : '', said: raw }];
  });
  if (items.length === 0) return [];
  const trace = bars(items, { fill: style.fillOf(key), hover: style.hover(key) });
  return [{ ...trace, name: soft(key), legendgroup: key }];
}

/** What a device can hold: a line across all rows. */
export function capacity(value: number, numRows: number, text?: string): Layer {
  const said = { xanchor: 'right', yanchor: 'bottom' } as const;
  return {
    shapes: [ruleX(value, rowRange(numRows), { width: 1.5, color: NEUTRAL, dash: 'dash' })],
    annotations: text === undefined ? [] : [note(value, -0.5, soft(text), said)],
  };
}
