import type { Pattern } from '../grammar/palette';
import { round } from './svg-text';

/** Fills of one picture: each hatch is defined once. */
export interface Fills {
  /** A colour, or a reference to the hatch over it. */
  fill(color: string, pattern?: Partial<Pattern>): string;
  readonly definitions: readonly string[];
}

/** Makes an empty set of fills. */
export function createFills(): Fills {
  const ids = new Map<string, string>();
  const definitions: string[] = [];
  return {
    definitions,
    fill(color, pattern) {
      if (pattern?.shape === undefined || pattern.shape === '') return color;
      const key = JSON.stringify([color, pattern]);
      let id = ids.get(key);
      if (id === undefined) {
        id = `hatch${ids.size}`;
        ids.set(key, id);
        definitions.push(definition(id, color, pattern));
      }
      return `url(#${id})`;
    },
  };
}

function definition(id: string, color: string, pattern: Partial<Pattern>): string {
  const size = pattern.size ?? 6;
  const ink = pattern.fgcolor ?? 'rgba(0,0,0,.4)';
  return (
    `<pattern id="${id}" width="${size}" height="${size}" patternUnits="userSpaceOnUse">` +
    `<rect width="${size}" height="${size}" fill="${color}"/>${strokes(pattern.shape ?? '', size, ink)}</pattern>`
  );
}

function strokes(shape: Pattern['shape'], z: number, ink: string): string {
  const path = (d: string): string => `<path d="${d}" stroke="${ink}" stroke-width="0.6" fill="none"/>`;
  switch (shape) {
    case '':
      return '';
    case '/':
      return path(`M0 ${z}L${z} 0M-1 1L1 -1M${z - 1} ${z + 1}L${z + 1} ${z - 1}`);
    case '\\':
      return path(`M0 0L${z} ${z}M-1 ${z - 1}L1 ${z + 1}M${z - 1} -1L${z + 1} 1`);
    case 'x':
      return path(`M0 0L${z} ${z}M0 ${z}L${z} 0`);
    case '+':
      return path(`M${z / 2} 0V${z}M0 ${z / 2}H${z}`);
    case '-':
      return path(`M0 ${z / 2}H${z}`);
    case '.':
      return `<circle cx="${z / 2}" cy="${z / 2}" r="${round(z / 7)}" fill="${ink}"/>`;
    default:
      return shape satisfies never;
  }
}
