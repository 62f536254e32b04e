import type { MemoryCause } from '../../core';
import { type Scaled, short } from '../format';
import { rowAxis, rowRange } from './axes';
import { fits, nameLines, soft, textWidth, widestLabel, wrapped } from './ink';
import { bars, endLabel, ruleX, swatches } from './marks';
import { CAUSE_FILL, type Fill, NEUTRAL, STACK_ORDER } from './palette';
import { type Layer, type Panel, plot } from './plot';
import { STATIC_WIDTH } from './template';

/** One horizontal bar of segments; negative segments are left of zero. */
export interface StackRow<K extends string> {
  readonly name: string;
  readonly values: Readonly<Partial<Record<K, number>>>;
  /** The markup beside the total. */
  readonly note?: string;
}

/** Bars on one axis, with a heading. */
export interface StackPanel<K extends string> {
  /** The markup above the bars: `heading` is bold, and `aside` follows in the secondary colour. */
  readonly heading: string;
  readonly aside?: string;
  readonly rows: readonly StackRow<K>[];
  readonly scale: Scaled;
  /** Whether values are differences, so that totals show their sign. */
  readonly isSigned?: boolean;
  /** Whether each row has one segment, so that only the total shows its number. */
  readonly isSingle?: boolean;
  /** A value that the axis always includes. */
  readonly reach?: number;
  /** Other marks on the same axes. */
  readonly over?: Layer;
}

/** The order of segments, bottom to top, and the style of each segment. */
export interface StackStyle<K extends string> {
  readonly order: readonly K[];
  fillOf(key: K): Fill;
  /** Returns a segment's name in the legend. Default: its key. */
  label?(key: K): string;
  /** Returns a segment's hovertemplate; %{customdata} is its value before scaling. */
  hover(key: K): string;
}

/** The style in which all figures draw memory by cause. */
export const CAUSE_STYLE: StackStyle<MemoryCause> = {
  order: STACK_ORDER,
  fillOf: (cause) => CAUSE_FILL[cause],
  hover: (cause) => `<b>${cause}</b> %{customdata:,} B<extra></extra>`,
};

export interface StackOptions {
  /** The width, in pixels, of the space right of the bars for notes beside totals. Default 0. */
  readonly noteRoom?: number;
  /** Where the bars begin and end, as shares of the width. Default: the whole width. */
  readonly across?: readonly [number, number];
  /** A panel right of the bars, with the same rows. Allowed only if there is a single panel of bars. */
  readonly beside?: Panel;
}

const TOP = 58;
const ROW = 26;
/** The height, in pixels, of a line of a name that has several lines. */
const LINE = 13.75;
const HEADING = 24;
const TICKS = 26;
const MARGIN_RIGHT = 56;
const MAX_LEFT = 190;
const LEGEND_GAP = 8;

/** Draws panels of stacked bars below each other, with their totals and a legend of the segments that are visible. */
export function plotStacks<K extends string>(
  panels: readonly StackPanel<K>[],
  style: StackStyle<K>,
  { noteRoom = 0, across = [0, 1], beside }: StackOptions = {},
) {
  const all = panels.flatMap(({ rows }) => rows);
  const left = Math.min(MAX_LEFT, widestLabel(all.map(({ name }) => name)) + 14);
  const numLines = Math.max(...all.map(({ name }) => wrapped(name, 11, left - 14).length));
  const row = Math.max(ROW, numLines * LINE + 4);
  const pixels = panels.reduce((sum, { rows }) => sum + HEADING + rows.length * row + TICKS, 0);
  const right = Math.max(
    MARGIN_RIGHT + (all.some((row) => row.note !== undefined) ? noteRoom : 0),
    ...panels.flatMap(({ rows, scale }) => rows.map((row) => labelWidth(row, scale))),
  );
  const width = (STATIC_WIDTH - left - right) * (across[1] - across[0]);
  let top = 0;
  const drawn = panels.map((panel) => {
    const from = top + HEADING;
    const to = from + panel.rows.length * row;
    top = to + TICKS;
    const domain = [1 - to / pixels, 1 - from / pixels] as const;
    const { x, y, ...marks } = stackPanel(panel, style, left, width);
    return { ...marks, x: { ...x, domain: across }, y: { ...y, domain } };
  });
  const domain = drawn[0]?.y.domain ?? [0, 1];
  const others = beside === undefined ? [] : [{ ...beside, y: { ...beside.y, domain } }];
  const seen = style.order.filter((key) => panels.some(({ rows }) => isSeen(key, rows)));
  const frame = { top: TOP, left, right, pixels, foot: LEGEND_GAP, legend: 'edge' } as const;
  return plot(frame, [...drawn, ...others], { data: swatches(seen, style.fillOf, true, style.label) });
}

/** Returns the width, in pixels, of the total and the note at the end of the longest bar; 0 without a note. */
function labelWidth<K extends string>({ values, note }: StackRow<K>, { divisor }: Scaled): number {
  if (note === undefined) return 0;
  const total = Object.values<number | undefined>(values).reduce<number>((sum, value = 0) => sum + value, 0);
  return textWidth(`${short(total / divisor)} ${note}`, 11) * 1.05 + 12;
}

/** Whether a key's segment is visible in any row: longer than 1/500 of the longest bar. */
function isSeen<K extends string>(key: K, rows: readonly StackRow<K>[]): boolean {
  const lengths = rows.map(({ values }) =>
    Object.values<number | undefined>(values).reduce<number>((sum, value = 0) => sum + Math.abs(value), 0),
  );
  return rows.some(({ values }) => Math.abs(values[key] ?? 0) > Math.max(...lengths) / 500);
}

function stackPanel<K extends string>(
  panel: StackPanel<K>,
  style: StackStyle<K>,
  left: number,
  width: number,
) {
  const { rows, scale, over = {}, heading, aside = '', isSigned = false, isSingle } = panel;
  const stacks = rows.map(({ values }) => stackOf(values, style.order, scale.divisor));
  const low = Math.min(0, ...stacks.map((stack) => stack.low));
  const reach = (panel.reach ?? 0) / scale.divisor;
  const high = Math.max(...stacks.map((stack) => stack.high), reach, low === 0 ? 1e-9 : 0);
  const range = [low * 1.15, high + (high - low) * 0.02] as const;
  const names = rows.map(({ name }) => nameLines(name, left - 14));
  const perUnit = width / (range[1] - range[0]);
  const traceOf = (key: K) => {
    const items = stacks.flatMap(({ segments }, at) =>
      segments
        .filter((segment) => segment.key === key)
        .map(({ from, length, said }) => {
          const hasText = isSingle !== true && fits(short(length), 10, Math.abs(length) * perUnit);
          return { at, length, from, text: hasText ? short(length) : '', said };
        }),
    );
    const trace = bars(items, { fill: style.fillOf(key), hover: style.hover(key) });
    return items.length === 0 ? [] : [{ ...trace, name: soft(key), legendgroup: key }];
  };
  const totals = rows.map((row, i) => {
    const stack = stacks[i] ?? { low: 0, high: 0 };
    const sum = stack.low + stack.high;
    const signed = `${sum > 0 ? '+' : ''}${short(sum)}`;
    return endLabel(stack.high, i, isSigned ? signed : short(stack.high), row.note);
  });
  return {
    x: { range, ...(low < 0 ? { zeroline: true, zerolinecolor: NEUTRAL } : {}) },
    y: rowAxis(names),
    data: [...style.order.flatMap(traceOf), ...(over.data ?? [])],
    heading,
    aside,
    annotations: [...totals, ...(over.annotations ?? [])],
    shapes: over.shapes ?? [],
  };
}

/** Places a row's segments one after another from zero: positive segments to the right, negative segments to the left. */
function stackOf<K extends string>(values: StackRow<K>['values'], order: readonly K[], divisor: number) {
  let [low, high] = [0, 0];
  const segments = order.flatMap((key) => {
    const said = values[key] ?? 0;
    const length = said / divisor;
    const from = length < 0 ? low : high;
    if (length < 0) low += length;
    else high += length;
    return said === 0 ? [] : [{ key, from, length, said }];
  });
  return { segments, low, high };
}

/** Draws a device's capacity as a line across all rows. */
export function capacity(value: number, numRows: number): Layer {
  return { shapes: [ruleX(value, rowRange(numRows), { width: 1.5, color: NEUTRAL, dash: 'dash' })] };
}
