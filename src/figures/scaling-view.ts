import type { Estimate } from '../plan/prediction';
import type { Quantities } from './figure';
import { createTable, type Table } from './table';

/** A prediction at one size. */
export interface ScalingPoint {
  /** GPUs, or nodes. */
  readonly count: number;
  readonly value: Estimate;
}

/** One line: a network card, a strategy. */
export interface ScalingSeries {
  readonly name: string;
  readonly points: readonly ScalingPoint[];
}

/** A number that a document states for one size. */
export interface DocumentedPoint {
  readonly count: number;
  readonly value: number;
  readonly relation?: '>' | '>=' | '<' | 'up to' | undefined;
  /** The claim's id. */
  readonly id: string;
}

/** What is drawn over how many. Values are percents of linear speed-up, or tokens per second of all GPUs together. */
export interface ScalingView {
  readonly series: readonly ScalingSeries[];
  readonly quantity: 'efficiency' | 'tokensPerSecond';
  readonly countedIn: 'GPUs' | 'nodes';
  readonly measured?: readonly { readonly count: number; readonly value: number }[];
  /** What the measured points are, as 'measured here, links shaped to 10 Gbit/s'. */
  readonly measuredWhat?: string;
  readonly documented?: readonly DocumentedPoint[];
  readonly subtitle: string;
}

/** A value as titles and labels say it: '79%', '1.23M tokens/s'. */
export function said(value: number, { quantity }: Pick<ScalingView, 'quantity'>): string {
  if (quantity === 'efficiency') return `${Math.round(value)}%`;
  const [divisor, letter] = value >= 1e6 ? [1e6, 'M'] : value >= 1e3 ? [1e3, 'k'] : [1, ''];
  return `${Number((value / divisor).toPrecision(3))}${letter} tokens/s`;
}

/** Every point as a row. */
export function scalingTable(view: ScalingView): Table {
  const rows = view.series.flatMap(({ name, points }) =>
    points.map(({ count, value }) => ({
      series: name,
      [view.countedIn]: count,
      predicted: value.value,
      low: value.low,
      high: value.high,
      measured: view.measured?.find((one) => one.count === count)?.value ?? null,
      documented: view.documented?.find((one) => one.count === count)?.value ?? null,
    })),
  );
  return createTable(rows);
}

/** What one may guess. */
export function scalingQuantities(view: ScalingView): Quantities {
  const [series] = view.series;
  const last = series?.points.at(-1);
  if (series === undefined || last === undefined) return {};
  const isEfficiency = view.quantity === 'efficiency';
  const keeps = isEfficiency ? 'of linear speed-up are left for' : 'are predicted for';
  const says = (value: string): string =>
    `${value} ${keeps} ${series.name} at ${last.count} ${view.countedIn}`;
  return { [view.quantity]: { value: last.value.value, unit: isEfficiency ? '%' : 'tokens/s', says } };
}
