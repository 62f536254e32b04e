import { ConfigError } from '../core/errors';

/** Throws: CONFIG naming the size of a layer that is not a whole number from 1. */
export function requireExtents(layer: string, sizes: Readonly<Record<string, number>>): void {
  for (const [name, value] of Object.entries(sizes)) {
    if (!Number.isInteger(value) || value < 1) {
      throw new ConfigError(`${layer}: ${name} is ${value}; give a whole number of at least 1`);
    }
  }
}
