import { textWidth } from './text-width';

const SWATCH_AND_GAP = 36;
const LINE = 19;
const EDGE = 8;

/** Pixels that a horizontal legend's lines take, from `left` to the edge of a picture of `width` pixels. */
export function legendRoom(names: readonly string[], left: number, width: number): number {
  let lines = 1;
  let x = left;
  for (const name of names) {
    const needed = textWidth(name, 11) + SWATCH_AND_GAP;
    if (x > left && x + needed - 18 > width - EDGE) {
      x = left;
      lines++;
    }
    x += needed;
  }
  return lines * LINE;
}
