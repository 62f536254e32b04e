import { inspect } from 'node:util';

/** MIME type → content, as in Jupyter's display_data message. */
export type DisplayBundle = Readonly<Record<string, unknown>>;

/** The method that returns how a notebook shows a value. Deno's kernel uses the same symbol. */
export const DISPLAY: unique symbol = Symbol.for('Jupyter.display');

/** The methods that give a value's text to our kernel, to a kernel that uses `util.inspect` (tslab), and to `String(value)`. */
export interface Shown {
  toString(): string;
  [DISPLAY](): DisplayBundle;
}

/** Makes the methods that give this text to our kernel, to a kernel that uses `util.inspect`, and to `String(value)`. */
export function shownAsText(text: string): Shown {
  const methods = {
    toString: () => text,
    [DISPLAY]: (): DisplayBundle => ({ 'text/plain': text }),
    [inspect.custom]: () => text,
  };
  // The methods are not enumerable, so that a loop over the value sees only the value's own fields.
  const descriptors = Object.getOwnPropertyDescriptors(methods);
  for (const descriptor of Object.values(descriptors)) descriptor.enumerable = false;
  return Object.defineProperties({}, descriptors) as Shown; // the object has exactly these methods
}

/** Adds the methods of `shown` to a value. */
export function withShown<T extends object>(fields: T, shown: Shown): T & Shown {
  return Object.defineProperties(fields, Object.getOwnPropertyDescriptors(shown)) as T & Shown; // `fields` now has the methods
}
