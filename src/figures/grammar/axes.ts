import { soft } from './ink';
import type { Axis } from './plotly';

type Range = readonly [number, number];

/** An axis's title. */
export function titled(text: string, standoff = 8): Pick<Axis, 'title'> {
  return { title: { text: soft(text), standoff, font: { size: 11 } } };
}

/** Numbers with what their ticks say. */
export function ticks(values: readonly number[], say: (value: number, i: number) => string) {
  return { tickvals: values, ticktext: values.map(say) };
}

/** Ends of an axis on which `count` rows stand, the first on top. */
export function rowRange(count: number, above = 0.5, below = 0.5): Range {
  return [count - 1 + below, -above];
}

/** An axis of rows: their names, markup, stand where ticks would. */
export function rowAxis(names: readonly string[], range: Range = rowRange(names.length)): Axis {
  return { range, showgrid: false, ticks: '', ticklabelstandoff: 5, ...namesAt(names) };
}

/** The same rows beside another panel that has their names. */
export function bareRowAxis(range: Range): Axis {
  return { range, showgrid: false, ticks: '', showticklabels: false, tickvals: [] };
}

/** An axis of columns with their names, markup, below. */
export function columnAxis(names: readonly string[] | null, count: number): Axis {
  const shown = names === null ? { tickvals: [], showticklabels: false } : namesAt(names);
  return { range: [-0.5, count - 0.5], showgrid: false, ticks: '', ...shown };
}

function namesAt(names: readonly string[]) {
  return { tickvals: names.map((_, i) => i), ticktext: names };
}
