import { ConfigError, nearest } from '../core';

/** Keys that programs read from any object, to print it or to find its type. */
const ASKED_OF_ALL = ['then', 'toJSON', 'constructor', 'asymmetricMatch', 'nodeType', 'inspect'];

/**
 * Returns an object of names, like an enum, in which reading an unknown name throws: undefined would look like an option that
 * was left out. `absent` explains names that documents use, but that do not exist.
 * Throws, when read: CONFIG with the known names.
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
  // Reading an absent name throws.
  return new Proxy(names, { get: read }) as T & Readonly<Record<A, never>>;
}
