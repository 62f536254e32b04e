import { ConfigError, isRecord, isWhole, shortened, shown } from '../core';
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
    if (value !== undefined) requireKind(what, name, value, kinds[name]);
  }
  return given;
}

/**
 * Throws: CONFIG if a value is not of its kind, with what to give. `name` is the option's, or the name of an argument that has only
 * a position.
 */
export function requireKind(what: string, name: string, value: unknown, kind: OptionKind): void {
  if (!isAccepted(value, kind)) throw wrongOption(what, name, value, kind.words);
}

/** Throws: CONFIG if one of these options is null, which would look like an option that was left out. */
export function refuseNull(what: string, options: object, isOption: (name: string) => boolean): void {
  for (const [name, value] of Object.entries(options)) {
    if (value === null && isOption(name)) throw wrongOption(what, name, value, 'a value, or left out');
  }
}

/** Returns the error for a value that an option cannot have; `allowed` says which values it can have, after "must be". */
export function wrongOption(what: string, name: string, value: unknown, allowed: string): ConfigError {
  const option = shortened(name, 40);
  const found = value === undefined ? 'is missing; it' : `is ${shown(value)}, but`;
  return new ConfigError(`${what}: ${option} ${found} must be ${allowed}`, { option: name });
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
    accepts: (value) => isWhole(value, least),
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

/** A list whose elements are all of one kind. */
export function listOf(kind: OptionKind): OptionKind {
  return {
    words: `a list, each ${kind.words}`,
    accepts: (value) => Array.isArray(value) && value.every((one) => kind.accepts(one)),
  };
}

export const text: OptionKind = {
  words: 'a text that is not empty',
  accepts: (value) => typeof value === 'string' && value !== '',
};

export const anyText: OptionKind = { words: 'a text', accepts: (value) => typeof value === 'string' };

/** A list, a Set or another object over which code can loop; not a text. */
export const iterable: OptionKind = {
  words: 'a list',
  accepts: (value) => typeof value === 'object' && value !== null && Symbol.iterator in value,
};

/** An object of fields, which other code checks. */
export const fields: OptionKind = { words: 'an object such as { name: value }', accepts: isRecord };

/** The path of a file or a folder; Linux has no longer paths. */
export const path: OptionKind = {
  words: `a path, such as 'ckpt'`,
  accepts: (value) => typeof value === 'string' && value !== '' && value.length <= LONGEST_PATH,
};

export const LONGEST_PATH = 4095;

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
