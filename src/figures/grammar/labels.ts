import { note } from './marks';
import { LINE_COLORS } from './palette';
import type { Annotation } from './plotly';

/** Moves labels apart so that neighbours are at least `gap` apart and none leaves [low, high]; order is kept. */
export function spread(wanted: readonly number[], gap: number, low: number, high: number): number[] {
  const places: number[] = [];
  for (const place of wanted) places.push(Math.max(place, (places.at(-1) ?? low - gap) + gap));
  let most = high;
  for (let i = places.length - 1; i >= 0; i--, most -= gap) {
    most = Math.min(places[i] ?? high, most);
    places[i] = most;
  }
  return places;
}

/** The color of the i-th line of a figure. */
export function lineColor(i: number): string {
  return LINE_COLORS[i % LINE_COLORS.length] ?? LINE_COLORS[0];
}

/** A dot in a line's color, before its name. */
export function keyDot(color: string): string {
  return `<span style="color:${color}">●</span> `;
}

const LINE = 15;

/** Names (markup) at the lines' ends, right of the panel, moved apart where lines meet; `pixels` high over `range`. */
export function endLabels(
  ends: readonly { readonly at: number; readonly text: string }[],
  [low, high]: readonly [number, number],
  pixels: number,
  more: Partial<Annotation> = {},
): Annotation[] {
  const perUnit = pixels / (high - low);
  const sorted = [...ends].sort((a, b) => a.at - b.at);
  const wanted = sorted.map(({ at }) => (at - low) * perUnit);
  const numLines = sorted.map(({ text }) => text.split('<br>').length);
  const places = spread(wanted, LINE * Math.max(1, ...numLines), 0, pixels);
  return sorted.map(({ text }, k) =>
    note(1, low + (places[k] ?? 0) / perUnit, text, { xref: 'paper', align: 'left', ...more }),
  );
}
