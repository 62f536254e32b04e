import type { Estimate } from '../../plan/prediction';
import { type Quantities, titleOf } from '../figure';
import { listed } from '../format';
import { createTable, type Table } from '../table';

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
  readonly measured?: readonly { readonly count: number; readonly value: number }[] | undefined;
  /** What the measured points are, as 'measured here, links shaped to 10 Gbit/s'. */
  readonly measuredWhat?: string | undefined;
  readonly documented?: readonly DocumentedPoint[] | undefined;
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

/** Whether the largest stated number lies in the prediction; without one, how the prediction goes. */
export function scalingFinding(view: ScalingView): string {
  return documentedFinding(view) ?? comparedFinding(view) ?? ownFinding(view);
}

function documentedFinding(view: ScalingView): string | null {
  const last = [...(view.documented ?? [])].sort((a, b) => a.count - b.count).at(-1);
  if (last === undefined) return null;
  const lines = view.series.flatMap(({ name, points }) => {
    const point = points.find(({ count }) => count === last.count);
    return point === undefined ? [] : [{ name, value: point.value, holds: isInside(last, point.value) }];
  });
  const [first] = lines;
  if (first === undefined) return null;
  const stated = `The documented ${said(last.value, view)} at ${last.count} ${view.countedIn}`;
  if (lines.length > 1) return amongLines(stated, last.value, lines, view);
  const where = first.holds ? 'inside' : 'outside';
  const { value, low, high } = first.value;
  const isNarrow = said(low, view) === said(high, view);
  const range = isNarrow ? said(value, view) : `${number(low)} to ${said(high, view)}`;
  return titleOf(`${stated} is ${where} the prediction: ${range}`, `${stated} is ${where} the prediction`);
}

/** A lower bound is not missed from above, an upper one not from below. */
function isInside({ value, relation }: DocumentedPoint, { low, high }: Estimate): boolean {
  const isBelow = value < low && relation !== '>' && relation !== '>=';
  const isAbove = value > high && relation !== '<' && relation !== 'up to';
  return !isBelow && !isAbove;
}

interface Line {
  readonly name: string;
  readonly value: Estimate;
  readonly holds: boolean;
}

/** Of several lines: which holds what is stated, else between which it lies. */
function amongLines(stated: string, value: number, lines: readonly Line[], view: ScalingView): string {
  const holding = lines.filter(({ holds }) => holds).map(({ name }) => name);
  if (holding.length > 0) {
    return titleOf(
      `${stated} fits ${listed(holding)}`,
      `${stated} fits ${holding.length} of ${lines.length} lines`,
    );
  }
  const least = lines.reduce((a, b) => (b.value.value < a.value.value ? b : a));
  const most = lines.reduce((a, b) => (b.value.value > a.value.value ? b : a));
  const isBetween = value > least.value.value && value < most.value.value;
  const ends = `${said(least.value.value, view)} and ${said(most.value.value, view)}`;
  return titleOf(
    `${stated} is ${isBetween ? 'between' : 'outside'} the predicted ${ends}`,
    `${stated} fits no line`,
  );
}

/** Three digits without a unit; the range's other end says it. */
function number(value: number): string {
  const [divisor, letter] = value >= 1e6 ? [1e6, 'M'] : value >= 1e3 ? [1e3, 'k'] : [1, ''];
  return `${Number((value / divisor).toPrecision(value < 1e3 ? 2 : 3))}${letter}`;
}

function comparedFinding(view: ScalingView): string | null {
  if (view.series.length < 2) return null;
  const ends = view.series.map((one) => ({ name: one.name, last: one.points.at(-1) }));
  const value = (end: (typeof ends)[number]): number => end.last?.value.value ?? 0;
  const best = ends.reduce((a, b) => (value(b) > value(a) ? b : a));
  const worst = ends.reduce((a, b) => (value(b) < value(a) ? b : a));
  const ratio = `${(value(best) / (value(worst) || 1)).toFixed(2)}×`;
  const where = `At ${best.last?.count ?? 0} ${view.countedIn}`;
  if (view.quantity === 'efficiency') {
    const both = `${said(value(best), view)} with ${best.name}, ${said(value(worst), view)} with ${worst.name}`;
    const at = `${best.last?.count ?? 0} ${view.countedIn}`;
    return titleOf(
      `Left of linear speed-up at ${at}: ${both}`,
      `Left at ${at}: ${both}`,
      `Left at ${at}: ${said(value(worst), view)} to ${said(value(best), view)} of linear speed-up`,
    );
  }
  return titleOf(
    `${where} ${best.name} reaches ${said(value(best), view)}, ${worst.name} ${said(value(worst), view)}`,
    `${where} ${best.name} gives ${ratio} the throughput of ${worst.name}`,
    `${where} the best line lies at ${ratio} of the worst`,
  );
}

function ownFinding(view: ScalingView): string {
  const points = view.series[0]?.points ?? [];
  const [first, last] = [points[0], points.at(-1)];
  if (first === undefined || last === undefined || points.length < 2) {
    return `${said(first?.value.value ?? 0, view)} at ${first?.count ?? 0} ${view.countedIn}`;
  }
  const from = `From ${first.count} to ${last.count} ${view.countedIn}`;
  if (view.quantity === 'efficiency') {
    return titleOf(
      `${from} efficiency goes from ${said(first.value.value, view)} to ${said(last.value.value, view)}`,
    );
  }
  const gained = last.value.value / first.value.value;
  const share = Math.round((gained / (last.count / first.count)) * 100);
  return titleOf(`${from} throughput grows ${gained.toFixed(1)}×: ${share}% of linear`);
}
