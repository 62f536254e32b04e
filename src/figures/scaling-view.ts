import type { Estimate } from '../plan/prediction';

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
