import { inspect } from 'node:util';
import { DISPLAY, type DisplayBundle } from './table';

/** How a value shows itself: in a kernel that asks for a bundle, in one that inspects (tslab), and as a string. */
export interface Shown {
  toString(): string;
  [DISPLAY](): DisplayBundle;
}

/** Methods that show a text wherever the value is looked at. */
export function shownAsText(text: string): Shown {
  const methods = {
    toString: () => text,
    [DISPLAY]: (): DisplayBundle => ({ 'text/plain': text }),
    [inspect.custom]: () => text,
  };
  // Hidden, so that the value's own fields are what a loop over it sees.
  const descriptors = Object.getOwnPropertyDescriptors(methods);
  for (const descriptor of Object.values(descriptors)) descriptor.enumerable = false;
  return Object.defineProperties({}, descriptors) as Shown; // it has exactly those methods
}

/** A value's fields together with how it shows itself. */
export function withShown<T extends object>(fields: T, shown: Shown): T & Shown {
  return Object.defineProperties(fields, Object.getOwnPropertyDescriptors(shown)) as T & Shown; // both are there now
}
