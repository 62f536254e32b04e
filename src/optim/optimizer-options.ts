import { nearest } from '../config/nearest';
import { ConfigError } from '../core/errors';

/** Options of an optimizer with its defaults filled in. Throws: CONFIG for an unknown key, naming the nearest, and for a number that is none. */
export function checkedOptions<T extends object>(optimizer: string, options: object, defaults: T): T {
  const known = Object.keys(defaults);
  for (const [key, value] of Object.entries(options)) {
    if (!known.includes(key)) {
      const near = nearest(key, known);
      const hint = near === undefined ? `known are ${known.join(', ')}` : `did you mean "${near}"?`;
      throw new ConfigError(`${optimizer}: unknown option "${key}" (${JSON.stringify(value)}); ${hint}`);
    }
    if (typeof value === 'number' && !(value >= 0)) {
      throw new ConfigError(`${optimizer}: ${key} must be a number from 0 on, got ${value}.`);
    }
  }
  const given = Object.entries(options).filter(([, value]) => value !== undefined);
  return { ...defaults, ...Object.fromEntries(given) };
}
