import { note } from './marks';
import { LINE_COLORS } from './palette';
import type { Annotation } from './plotly';

/** Moves labels apart so that neighbours are at least `gap` apart and none leaves [low, high]; order is kept. */
export function spread(wanted: readonly number[], gap: number, low: number, high: number): number[] {
  const places = [...wanted];
  for (let i = 0; i < places.length; i++) {
    const least = i === 0 ? low : (places[i - 1] ?? low) + gap;
    places[i] = Math.max(places[i] ?? low, least);
  }
  for (let i = places.length - 1; i >= 0; i--) {
    const most = i === places.length - 1 ? high : (places[i + 1] ?? high) - gap;
    places[i] = Math.min(places[i] ?? high, most);
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

/** A line's end, and what stands beside it. */
export interface LineEnd {
  readonly at: number;
  /** Markup. */
  readonly text: string;
}

/** Names at the lines' ends, right of the panel, moved apart where lines meet; `pixels` high over `range`. */
export function endLabels(
  ends: readonly LineEnd[],
  range: readonly [number, number],
  pixels: number,
  more: Partial<Annotation> = {},
): Annotation[] {
  const [low, high] = range;
  const sorted = [...ends].sort((a, b) => a.at - b.at);
  const wanted = sorted.map(({ at }) => ((at - low) / (high - low)) * pixels);
  const places = spread(wanted, LABEL_GAP, 0, pixels);
  return sorted.map(({ text }, k) =>
    note(1, low + ((places[k] ?? 0) / pixels) * (high - low), text, { xref: 'paper', ...more }),
  );
}

const LABEL_GAP = 15;
