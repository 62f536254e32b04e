import { listed } from '../../core';
import type { Estimate } from '../../planner';
import type { Quantities, Title } from '../figure';
import { quoted } from '../format';
import { createTable, type Table } from '../table';

/** A prediction for one number of GPUs or nodes. */
export interface ScalingPoint {
  /** The number of GPUs, or of nodes. */
  readonly count: number;
  readonly value: Estimate;
}

/** One line of the figure, such as a network card or a strategy. */
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

/** The figure's numbers. Values are percents of linear speed-up, or tokens per second on all GPUs together. */
export interface ScalingView {
  readonly series: readonly ScalingSeries[];
  readonly quantity: 'efficiency' | 'tokensPerSecond';
  readonly countedIn: 'GPUs' | 'nodes';
  readonly measured?: readonly { readonly count: number; readonly value: number }[] | undefined;
  /** The measured points' name, as 'measured here, links shaped to 10 Gbit/s'. */
  readonly measuredWhat?: string | undefined;
  readonly documented?: readonly DocumentedPoint[] | undefined;
  readonly subtitle: string;
}

/** Formats a value for titles and labels: '79%', '1.23M tokens/s'. */
export function said(value: number, { quantity }: Pick<ScalingView, 'quantity'>): string {
  return quantity === 'efficiency' ? `${Math.round(value)}%` : `${number(value, 3)} tokens/s`;
}

/** Formats a number without its unit. */
function number(value: number, digits: number): string {
  const [divisor, letter] = value >= 1e6 ? [1e6, 'M'] : value >= 1e3 ? [1e3, 'k'] : [1, ''];
  return `${Number((value / divisor).toPrecision(digits))}${letter}`;
}

/** Makes a table with a row per point. */
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

/** Returns the numbers that a reader may guess. */
export function scalingQuantities(view: ScalingView): Quantities {
  const [series] = view.series;
  const last = series?.points.at(-1);
  if (series === undefined || last === undefined) return {};
  const isEfficiency = view.quantity === 'efficiency';
  const keeps = isEfficiency ? 'of linear speed-up is reached by' : 'are predicted for';
  const says = (value: string): string =>
    `${value} ${keeps} ${quoted(series.name)} at ${last.count} ${view.countedIn}`;
  return { [view.quantity]: { value: last.value.value, unit: isEfficiency ? '%' : 'tokens/s', says } };
}

/**
 * Says whether the documented number at the largest size is inside the prediction; without a documented number, says what is
 * predicted.
 */
export function scalingFinding(view: ScalingView): Title {
  return documentedFinding(view) ?? comparedFinding(view) ?? ownFinding(view);
}

function documentedFinding(view: ScalingView): Title | null {
  const last = [...(view.documented ?? [])].sort((a, b) => a.count - b.count).at(-1);
  if (last === undefined) return null;
  const lines = view.series.flatMap(({ name, points }) => {
    const point = points.find(({ count }) => count === last.count);
    return point === undefined ? [] : [{ name, ...point.value, holds: isInside(last, point.value) }];
  });
  const [first] = lines;
  if (first === undefined) return null;
  const stated = `The documented ${said(last.value, view)} at ${last.count} ${view.countedIn}`;
  if (lines.length > 1) return amongLines(stated, last.value, lines, view);
  const where = `${stated} is ${first.holds ? 'inside' : 'outside'} the prediction`;
  const { value, low, high } = first;
  const isNarrow = said(low, view) === said(high, view);
  const from = number(low, low < 1e3 ? 2 : 3);
  return [`${where}: ${isNarrow ? said(value, view) : `${from} to ${said(high, view)}`}`, where];
}

/** Whether a documented number agrees with an interval; a documented bound also agrees with intervals beyond the bound. */
function isInside({ value, relation }: DocumentedPoint, { low, high }: Estimate): boolean {
  const isBelow = value < low && relation !== '>' && relation !== '>=';
  const isAbove = value > high && relation !== '<' && relation !== 'up to';
  return !isBelow && !isAbove;
}

interface Line extends Estimate {
  readonly name: string;
  readonly holds: boolean;
}

/** Names the lines whose interval contains the documented value, or the two lines between which the value is. */
function amongLines(stated: string, value: number, lines: readonly Line[], view: ScalingView): Title {
  const holding = lines.filter(({ holds }) => holds).map(({ name }) => quoted(name));
  if (holding.length > 0) {
    return [`${stated} fits ${listed(holding)}`, `${stated} fits ${holding.length} of ${lines.length} lines`];
  }
  const values = lines.map((line) => line.value);
  const [least, most] = [Math.min(...values), Math.max(...values)];
  const isBetween = value > least && value < most;
  const ends = `${said(least, view)} and ${said(most, view)}`;
  return [
    `${stated} is ${isBetween ? 'between' : 'outside'} the predicted ${ends}`,
    `${stated} fits no line`,
  ];
}

function comparedFinding(view: ScalingView): Title | null {
  if (view.series.length < 2) return null;
  const ends = view.series.map(({ name, points }) => ({ name, last: points.at(-1) }));
  const value = (end: (typeof ends)[number]): number => end.last?.value.value ?? 0;
  const best = ends.reduce((a, b) => (value(b) > value(a) ? b : a));
  const worst = ends.reduce((a, b) => (value(b) < value(a) ? b : a));
  const at = `${best.last?.count ?? 0} ${view.countedIn}`;
  const [high, low] = [said(value(best), view), said(value(worst), view)];
  if (view.quantity === 'efficiency') {
    const [first, last] = [`${high} with ${quoted(best.name)}`, `${low} with ${quoted(worst.name)}`];
    return [
      `At ${at}, ${quoted(best.name)} reaches ${high} of linear speed-up, and ${quoted(worst.name)} reaches ${low}`,
      `Efficiency at ${at} is ${first} and ${last}`,
      `Efficiency at ${at}: ${first}, ${last}`,
      `At ${at}, the lines reach ${low} to ${high} of linear speed-up`,
    ];
  }
  const ratio = `${(value(best) / (value(worst) || 1)).toFixed(2)}×`;
  return [
    `At ${at}, ${quoted(best.name)} reaches ${high}, and ${quoted(worst.name)} reaches ${low}`,
    `At ${at}, ${quoted(best.name)} gives ${ratio} the throughput of ${quoted(worst.name)}`,
    `At ${at}, the best line has ${ratio} the throughput of the worst`,
  ];
}

function ownFinding(view: ScalingView): Title {
  const points = view.series[0]?.points ?? [];
  const [first, last] = [points[0], points.at(-1)];
  if (first === undefined || last === undefined || points.length < 2) {
    return `${said(first?.value.value ?? 0, view)} at ${first?.count ?? 0} ${view.countedIn}`;
  }
  const from = `From ${first.count} to ${last.count} ${view.countedIn}`;
  if (view.quantity === 'efficiency') {
    return [
      `${from}, efficiency changes from ${said(first.value.value, view)} to ${said(last.value.value, view)}`,
    ];
  }
  const gained = last.value.value / first.value.value;
  const share = Math.round((gained / (last.count / first.count)) * 100);
  return [`${from}, throughput grows ${gained.toFixed(1)}×: ${share}% of linear speed-up`];
}
