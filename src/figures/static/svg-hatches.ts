import type { Fill, Pattern } from '../grammar/palette';
import { element } from './svg';

/** The hatches of one picture, each defined once: what they are → their definition. */
export type Hatches = Map<string, string>;

/** A colour, or a reference to the hatch over it. */
export function fillOf(hatches: Hatches, { color, pattern }: Fill): string {
  if (!pattern?.shape) return color;
  const key = JSON.stringify([color, pattern]);
  if (!hatches.has(key)) hatches.set(key, definition(`hatch${hatches.size}`, color, pattern));
  return `url(#hatch${[...hatches.keys()].indexOf(key)})`;
}

/** The strokes of a tile that is z wide and high. */
const STROKES: Readonly<Record<Pattern['shape'], (z: number) => string>> = {
  '': () => '',
  '/': (z) => `M0 ${z}L${z} 0M-1 1L1 -1M${z - 1} ${z + 1}L${z + 1} ${z - 1}`,
  '\\': (z) => `M0 0L${z} ${z}M-1 ${z - 1}L1 ${z + 1}M${z - 1} -1L${z + 1} 1`,
  x: (z) => `M0 0L${z} ${z}M0 ${z}L${z} 0`,
  '+': (z) => `M${z / 2} 0V${z}M0 ${z / 2}H${z}`,
  '-': (z) => `M0 ${z / 2}H${z}`,
  '.': () => '',
};

function definition(id: string, color: string, { shape, size, fgcolor }: Pattern): string {
  const tile = { width: size, height: size };
  const d = STROKES[shape](size);
  const ink =
    shape === '.'
      ? element('circle', { cx: size / 2, cy: size / 2, r: size / 7, fill: fgcolor })
      : element('path', { d, stroke: fgcolor, 'stroke-width': 0.6, fill: 'none' });
  return element(
    'pattern',
    { id, ...tile, patternUnits: 'userSpaceOnUse' },
    element('rect', { ...tile, fill: color }) + ink,
  );
}
