import { classOf } from './errors';
import { MOST_SHOWN, shortened } from './shortened';

/**
 * Returns a value as a short text for a message: `"fast"`, `[1,2]`, `5n`, `a Map`. A long text is cut, and its length is named.
 * Never throws, also if reading the value does.
 */
export function shown(value: unknown): string {
  try {
    if (typeof value === 'string')
      return value.length <= MOST_SHOWN ? JSON.stringify(value) : `"${shortened(value)}`;
    return shortened(textOf(value));
  } catch {
    return 'a value that cannot be read';
  }
}

function textOf(value: unknown): string {
  switch (typeof value) {
    case 'bigint':
      return `${value}n`;
    case 'function':
      return classOf(value);
    case 'object':
      return value === null || Array.isArray(value) || isRecord(value) ? jsonOf(value) : classOf(value);
    default:
      return String(value);
  }
}

/** Whether a value is an object of fields: not null, a list or an instance of a class, and no proxy that throws. */
export function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  try {
    if (typeof value !== 'object' || value === null || Array.isArray(value)) return false;
    const prototype: unknown = Object.getPrototypeOf(value);
    Object.keys(value);
    // The prototype of an object of another context is another object, but it has no prototype either.
    return prototype === null || Object.getPrototypeOf(prototype) === null;
  } catch {
    return false; // a proxy that throws
  }
}

/** The number of values that JSON in a message has at most, because a message shows only its beginning. */
const MOST_VALUES = 200;

/** Returns JSON; for a value that JSON cannot hold, or with very many values, what it is. */
function jsonOf(value: object | null): string {
  let numValues = 0;
  const bounded = (_key: string, inner: unknown): unknown => {
    numValues++;
    if (numValues > MOST_VALUES) throw new RangeError('too many values');
    const isNumber = typeof inner === 'bigint' || (typeof inner === 'number' && !Number.isFinite(inner));
    return isNumber ? String(inner) : inner;
  };
  try {
    return JSON.stringify(value, bounded);
  } catch {
    return Array.isArray(value) ? `an array of ${value.length} values` : 'an object'; // or a cycle
  }
}
