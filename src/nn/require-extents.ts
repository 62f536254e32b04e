import { ConfigError, isWhole, shown } from '../core';

/** Throws: CONFIG if a size of a layer is not a positive integer; the error names the size. */
export function requireExtents(layer: string, sizes: Readonly<Record<string, number>>): void {
  for (const [name, value] of Object.entries(sizes)) {
    if (!isWhole(value, 1)) {
      throw new ConfigError(`${layer}: ${name} is ${shown(value)}; give a whole number of at least 1`);
    }
  }
}

/** Throws: CONFIG if a size over which code loops is too large, so that a mistyped number does not take minutes. */
export function requireAtMost(layer: string, name: string, value: number, most: number): void {
  if (value <= most) return;
  throw new ConfigError(`${layer}: ${name} is ${value}; give at most ${most}`);
}
