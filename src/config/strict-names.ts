import { ConfigError } from '../core/errors';
import { nearest } from './nearest';

/** Keys that a program asks any object for, to print it or to see what it is. */
const ASKED_OF_ALL = ['then', 'toJSON', 'constructor', 'asymmetricMatch', 'nodeType', 'inspect'];

/**
 * An object of names, as an enum has them, in which a name that does not exist throws instead of being undefined: an option
 * that is undefined would pass for one that was left out. `absent` says of names that documents use what they mean.
 * Throws, when read: CONFIG naming what is there.
 */
export function strictNames<T extends object, A extends string = never>(
  what: string,
  names: T,
  absent: Readonly<Record<A, string>> = {} as Readonly<Record<A, string>>, // no names by default
): T & Readonly<Record<A, never>> {
  const read = (target: T, key: string | symbol): unknown => {
    if (typeof key === 'symbol' || key in target || ASKED_OF_ALL.includes(key))
      return Reflect.get(target, key);
    const known = Object.keys(names);
    const said = Object.entries<string>(absent).find(([name]) => name === key)?.[1];
    const near = nearest(key, known);
    const hint =
      said ?? (near === undefined ? `there are ${known.join(', ')}` : `did you mean ${what}.${near}?`);
    throw new ConfigError(`${what}.${key} does not exist; ${hint}`);
  };
  // Reading an absent name never gives a value.
  return new Proxy(names, { get: read }) as T & Readonly<Record<A, never>>;
}
