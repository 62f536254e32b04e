import { soft } from './ink';
import type { Axis } from './plotly';

type Range = readonly [number, number];

/** Returns an axis's title. */
export function titled(text: string, standoff = 8): Pick<Axis, 'title'> {
  return { title: { text: soft(text), standoff, font: { size: 11 } } };
}

/** Returns the range of the finite values; `margin` is a share of the range that is added on both sides. */
export function paddedRange(values: readonly number[], margin: number): Range {
  const finite = values.filter(Number.isFinite);
  if (finite.length === 0) return [0, 1];
  const low = finite.reduce((least, value) => Math.min(least, value));
  const high = finite.reduce((most, value) => Math.max(most, value));
  const pad = high === low ? Math.abs(high) * 0.05 || 0.5 : (high - low) * margin;
  return [low - pad, high + pad];
}

/** Returns an axis of training steps: only integers have ticks, and at both ends there is room for whole markers. */
export function stepAxis(first: number, last: number): Axis & { readonly range: Range } {
  const margin = (last - first) * 0.015;
  const tickvals = niceTicks([first, last], 8).filter(Number.isInteger);
  return { range: [first - margin, last + margin], tickvals, ...titled('step') };
}

/** Returns ticks at these values, with their texts. */
export function ticks(values: readonly number[], say: (value: number, i: number) => string) {
  return { tickvals: values, ticktext: values.map(say) };
}

/** Returns the range of an axis with `count` rows, the first row on top. */
export function rowRange(count: number, above = 0.5, below = 0.5): Range {
  return [count - 1 + below, -above];
}

/** Returns an axis of rows with their names (markup) in place of ticks. */
export function rowAxis(names: readonly string[], range: Range = rowRange(names.length)): Axis {
  return { range, showgrid: false, ticks: '', ticklabelstandoff: 5, ...namesAt(names) };
}

/** Returns an axis of rows without names, for a panel beside a panel that has the names. */
export function bareRowAxis(range: Range): Axis {
  return { range, showgrid: false, ticks: '', showticklabels: false, tickvals: [] };
}

/** Returns an axis of columns with their names (markup) below. */
export function columnAxis(names: readonly string[] | null, count: number): Axis {
  const shown = names === null ? { tickvals: [], showticklabels: false } : namesAt(names);
  return { range: [-0.5, count - 0.5], showgrid: false, ticks: '', ...shown };
}

function namesAt(names: readonly string[]) {
  return { tickvals: names.map((_, i) => i), ticktext: names };
}

/** Returns about `count` round numbers within a range. */
export function niceTicks(range: Range, count: number): number[] {
  const [low, high] = [Math.min(...range), Math.max(...range)];
  const raw = (high - low) / count;
  if (!(raw > 0)) return [low];
  const power = 10 ** Math.floor(Math.log10(raw));
  const factor = raw / power;
  const step = (factor < 1.5 ? 1 : factor < 3.5 ? 2 : factor < 7.5 ? 5 : 10) * power;
  const ticks: number[] = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; i++) {
    ticks.push(Number((i * step).toPrecision(12)));
  }
  return ticks;
}

/**
 * [Note: logarithmic axes] Figures draw log10 of a value on a linear axis whose ticks show the value. On plotly's logarithmic
 * axes, annotations and shapes have different coordinates. Also, the static writer then needs only one kind of axis.
 */
export const log10 = Math.log10;

/** Factors at which a decade may have ticks, the finest division first. */
const STEPS = [
  [1, 1.05, 1.1, 1.2, 1.4, 1.6, 2, 2.5, 3, 4, 5, 6, 7, 8, 9, 9.5],
  [1, 1.25, 1.5, 2, 2.5, 3, 4, 5, 6, 8],
  [1, 1.5, 2, 3, 5, 7],
  [1, 2, 5],
  [1, 3],
  [1],
] as const;

/** Returns ticks at round values between `low` and `high`, from the finest division that has at most `most` ticks. */
export function logTicks(low: number, high: number, say: (value: number) => string, most = 6) {
  const candidates = STEPS.map((steps) => within(low, high, steps));
  const values = candidates.find(({ length }) => length <= most) ?? candidates.at(-1) ?? [];
  return { tickvals: values.map(log10), ticktext: values.map((value) => soft(say(value))) };
}

function within(low: number, high: number, steps: readonly number[]): number[] {
  const first = Math.floor(log10(low));
  const powers = Array.from({ length: Math.ceil(log10(high)) - first + 1 }, (_, i) => first + i);
  return powers
    .flatMap((power) => steps.map((step) => Number((step * 10 ** power).toPrecision(6))))
    .filter((value) => value >= low * 0.9999 && value <= high * 1.0001);
}

/** Returns the range of the positive values' logarithms; `margin` is a share of the range that is added on both sides. */
export function logRange(values: readonly number[], margin = 0.06): readonly [number, number] {
  const logs = values.filter((value) => value > 0).map(log10);
  const [low, high] = logs.length === 0 ? [0, 1] : [Math.min(...logs), Math.max(...logs)];
  const pad = (high - low) * margin || 0.05;
  return [low - pad, high + pad];
}
