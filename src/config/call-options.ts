import { ConfigError } from '../core/errors';
import { isRecord, shown } from '../core/shown';
import { requireKnownOptions } from './option-names';

/** The values that an option of a call may have. */
export interface OptionKind {
  /** Says what the values are, after "must be". */
  readonly words: string;
  accepts(value: unknown): boolean;
}

/** The kinds of all options of a call; TypeScript reports an option without a kind. */
export type OptionKinds<T> = { readonly [Key in keyof T]-?: OptionKind };

/**
 * Returns a call's options after a check, because JavaScript passes any value: every name is known, and every value is of the
 * option's kind. `what` is how the call is written: 'nn.LSTM'. Throws: CONFIG with the name, the value and what to write.
 */
export function requireOptions<T extends object>(what: string, given: T, kinds: OptionKinds<T>): T {
  const isNamed = isRecord(given);
  const names = (isNamed ? Object.keys(given) : []) as (keyof T & string)[];
  if (!isNamed || names.some((name) => !Object.hasOwn(kinds, name)))
    requireKnownOptions(what, given, Object.keys(kinds));
  for (const name of names) {
    const value: unknown = given[name];
    const kind = kinds[name];
    if (value === undefined || isAccepted(value, kind)) continue;
    throw new ConfigError(`${what}: ${name} is ${shown(value)}, but must be ${kind.words}`, { option: name });
  }
  return given;
}

function isAccepted(value: unknown, kind: OptionKind): boolean {
  try {
    return kind.accepts(value);
  } catch {
    return false; // reading the value throws
  }
}

/** Throws: CONFIG if a call has more arguments than it takes, as `allReduce(x, 'sum', { asyncOp: true })` has. */
export function requireArity(what: string, args: readonly unknown[], most: number, form: string): void {
  if (args.length <= most) return;
  const extra = args.slice(most).map(shown).join(', ');
  throw new ConfigError(`${what} takes ${most} arguments, and not also ${extra}; write ${form}`);
}

export const flag: OptionKind = { words: 'true or false', accepts: (value) => typeof value === 'boolean' };

/** For values that other code checks, or that may be of any type. */
export const anything: OptionKind = { words: 'a value', accepts: () => true };

export const finite: OptionKind = { words: 'a finite number', accepts: Number.isFinite };

export const fraction = numberFrom(0, 1);

export const atLeast0 = numberFrom(0, Number.POSITIVE_INFINITY);

export const index: OptionKind = { words: 'a whole number', accepts: Number.isSafeInteger };

export const count = wholeFrom(1);

export const callback: OptionKind = { words: 'a function', accepts: (value) => typeof value === 'function' };

/** An object, also one that can be called, such as a module. */
export const instance: OptionKind = {
  words: 'an object',
  accepts: (value) => (typeof value === 'object' && value !== null) || typeof value === 'function',
};

export const tensor: OptionKind = {
  words: 'a tensor',
  accepts: (value) => typeof value === 'object' && value !== null && 'dataId' in value && 'shape' in value,
};

export function wholeFrom(least: number): OptionKind {
  return {
    words: `a whole number of at least ${least}`,
    accepts: (value) => Number.isSafeInteger(value) && Number(value) >= least,
  };
}

/** A whole number of at least `least`, or two of them. */
export function pairFrom(least: number): OptionKind {
  const one = wholeFrom(least);
  return {
    words: `${one.words}, or a pair of them`,
    accepts: (value) =>
      one.accepts(value) || (Array.isArray(value) && value.length === 2 && value.every(one.accepts)),
  };
}

export function oneOf(...words: readonly string[]): OptionKind {
  return {
    words: words.map((word) => `'${word}'`).join(' or '),
    accepts: (value) => words.some((word) => word === value),
  };
}

export function either(first: OptionKind, second: OptionKind): OptionKind {
  return {
    words: `${first.words}, or ${second.words}`,
    accepts: (value) => first.accepts(value) || second.accepts(value),
  };
}

export function orNull(kind: OptionKind): OptionKind {
  return { words: `${kind.words}, or null`, accepts: (value) => value === null || kind.accepts(value) };
}

/** An object with some of these names, whose values are all of one kind. */
export function fieldsOf(names: readonly string[], kind: OptionKind): OptionKind {
  return {
    words: `{ ${names.join(', ')} }, each ${kind.words}`,
    accepts: (value) =>
      isRecord(value) &&
      Object.entries(value).every(
        ([name, field]) => names.includes(name) && (field === undefined || kind.accepts(field)),
      ),
  };
}

function numberFrom(least: number, most: number): OptionKind {
  const range = most === Number.POSITIVE_INFINITY ? `of at least ${least}` : `from ${least} to ${most}`;
  return {
    words: `a number ${range}`,
    accepts: (value) =>
      typeof value === 'number' && value >= least && value <= most && Number.isFinite(value),
  };
}
