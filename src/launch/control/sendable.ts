import { types } from 'node:util';
import { ConfigError } from '../../core';
import { Tensor } from '../../core/tf';

/*
 * [Note: values between processes] `job.put`, `job.get` and functions copy values between the notebook and ranks. Ranks that
 * run JavaScript get them by structured clone. Ranks that run Python get values of Python ([Note: values in Python]). What a
 * copy would change or lose is refused by its path, with the same words in both cases. As in structured clone, properties whose
 * keys are symbols, and properties that are not enumerable, are not copied.
 */

/** The language of the process that gets or sends a value beside this one. */
export type Language = 'JavaScript' | 'Python';

/** The place of a value: the name of the outermost value, then keys and indices. */
export interface ValuePath {
  readonly of: ValuePath | undefined;
  /** The text that follows the path of `of`: '.a', '[2]'. */
  readonly step: string;
}

/** Containers within containers beyond this depth are refused for Python, whose reader of JSON goes no deeper. */
const MOST_DEPTH = 128;
/** In longer arrays, only structured clone checks properties that are not elements, because a list of all keys takes seconds. */
const LONG_ARRAY = 100_000;
/** More values outside of typed arrays than this are refused for Python, because each is sent as text. */
const MOST_PARTS = 2 ** 24;

/**
 * Checks that a value arrives as it is. `caller` is the caller, 'job.put'; `name` is the value in messages, 'X'. Throws: CONFIG,
 * which names the path of the first part that cannot be sent.
 */
export function requireSendable(value: unknown, caller: string, name: string, language: Language): void {
  const walk = new Walk(caller, language);
  try {
    walk.visit(value, { of: undefined, step: name });
  } catch (error) {
    const isTooDeep = error instanceof RangeError && error.message.includes('call stack');
    if (!isTooDeep) throw error;
    throw new ConfigError(`${caller}: ${name} is nested too deeply to be sent; send a flatter value`);
  }
}

class Walk {
  readonly #caller: string;
  readonly #language: Language;
  /** The number of values in each container that was visited. */
  readonly #parts = new Map<object, number>();
  /** The containers around the visited value. */
  readonly #around = new Map<object, ValuePath>();

  constructor(caller: string, language: Language) {
    this.#caller = caller;
    this.#language = language;
  }

  /** Checks a value; returns the number of values in it. */
  visit(value: unknown, place: ValuePath): number {
    if (typeof value === 'function')
      return this.#refuse(place, 'a function', 'a function can be sent only by job.on().run');
    if (typeof value === 'symbol') return this.#refuse(place, 'a symbol', 'send a text');
    if (typeof value !== 'object' || value === null) return 1;
    const known = this.#parts.get(value);
    if (known !== undefined) return known;
    const outer = this.#around.get(value);
    if (outer !== undefined)
      return this.#refuse(place, `${pathOf(outer)} again`, 'send a value that does not contain itself');
    if (this.#around.size >= MOST_DEPTH && this.#language === 'Python')
      return this.#refuse(place, `nested more than ${MOST_DEPTH} deep`, 'send a flatter value');
    this.#around.set(value, place);
    const count = this.#visitObject(value, place);
    this.#around.delete(value);
    this.#parts.set(value, count);
    if (count > MOST_PARTS && this.#language === 'Python')
      return this.#refuse(
        place,
        `a container of more than ${MOST_PARTS} values`,
        'send numbers in typed arrays',
      );
    return count;
  }

  #visitObject(value: object, place: ValuePath): number {
    if (types.isProxy(value)) return this.#refuse(place, 'a Proxy', 'send a copy, as { ...x }');
    if (Array.isArray(value)) return this.#visitArray(value, place);
    if (types.isMap(value)) return this.#visitMap(value, place);
    if (types.isSet(value)) return this.#visitSet(value, place);
    if (types.isDate(value)) return this.#visitDate(value, place);
    if (types.isNativeError(value)) return this.#visitError(value, place);
    if (types.isArrayBuffer(value)) return 1;
    if (ArrayBuffer.isView(value)) {
      if (types.isArrayBuffer(value.buffer)) return 1;
      return this.#refuse(place, 'a view of shared memory', 'send a copy, as x.slice()');
    }
    if (types.isRegExp(value) || types.isBoxedPrimitive(value)) {
      if (this.#language === 'JavaScript') return 1;
      return this.#refuse(
        place,
        `a ${value.constructor.name} object, which Python does not have`,
        'send a text or a number',
      );
    }
    const refusal = otherKind(value);
    if (refusal !== undefined) return this.#refuse(place, ...refusal);
    return this.#visitKeys(value, place);
  }

  #visitArray(value: readonly unknown[], place: ValuePath): number {
    let count = 1;
    for (let i = 0; i < value.length; i++) {
      const item = value[i];
      // Paths of primitive values are needed only for symbols and functions.
      if (typeof item === 'number' || typeof item === 'string' || typeof item === 'boolean') count++;
      else count += this.visit(item, { of: place, step: `[${i}]` });
    }
    const isInPython = this.#language === 'Python';
    if (!isInPython && value.length > LONG_ARRAY) return count;
    for (const key of besideElements(value)) {
      if (isInPython)
        this.#refuse(place, `an array that also has the property ${key}`, 'send an object with both');
      count += this.#visitKey(value, key, place);
    }
    return count;
  }

  #visitMap(value: ReadonlyMap<unknown, unknown>, place: ValuePath): number {
    let count = 1;
    const seen = new Map<unknown, unknown>();
    for (const [key, item] of value) {
      this.#requireKey(key, seen, place, 'key');
      count += this.visit(key, { of: place, step: `'s key ${shown(key)}` });
      count += this.visit(item, { of: place, step: `.get(${shown(key)})` });
    }
    return count;
  }

  #visitSet(value: ReadonlySet<unknown>, place: ValuePath): number {
    let count = 1;
    const seen = new Map<unknown, unknown>();
    for (const item of value) {
      this.#requireKey(item, seen, place, 'member');
      count += this.visit(item, { of: place, step: `'s member ${shown(item)}` });
    }
    return count;
  }

  /** Python finds keys by equality, in which 1, 1n and true are one key, and cannot use a list or a dict as a key. */
  #requireKey(key: unknown, seen: Map<unknown, unknown>, place: ValuePath, role: 'key' | 'member'): void {
    if (this.#language === 'JavaScript') return;
    if (typeof key === 'object' && key !== null) {
      this.#refuse(
        place,
        `a collection with an object as a ${role}, which Python cannot look up`,
        'use texts or numbers',
      );
    }
    const inPython = keyInPython(key);
    if (seen.has(inPython)) {
      const both = `${shown(seen.get(inPython))} and ${shown(key)}`;
      this.#refuse(
        place,
        `a collection with the ${role}s ${both}, which are equal in Python`,
        'use one of them',
      );
    }
    seen.set(inPython, key);
  }

  #visitDate(value: Date, place: ValuePath): number {
    const milliseconds = value.getTime();
    const isInPython = milliseconds >= FIRST_DATE && milliseconds < END_DATE;
    if (this.#language === 'JavaScript' || isInPython) return 1;
    const kind = Number.isNaN(milliseconds) ? 'an invalid Date' : 'a Date outside of the years 1 to 9999';
    return this.#refuse(place, `${kind}, which Python does not have`, 'send a number');
  }

  #visitError(value: Error, place: ValuePath): number {
    for (const key of ['name', 'message', 'stack'] as const) this.#read(value, key, place);
    const cause = this.#read(value, 'cause', place);
    return 1 + (cause === undefined ? 0 : this.visit(cause, { of: place, step: '.cause' }));
  }

  #visitKeys(value: object, place: ValuePath): number {
    let count = 1;
    for (const key of Object.keys(value)) count += this.#visitKey(value, key, place);
    return count;
  }

  #visitKey(value: object, key: string, place: ValuePath): number {
    return this.visit(this.#read(value, key, place), { of: place, step: stepTo(key) });
  }

  #read(value: object, key: string, place: ValuePath): unknown {
    try {
      return Reflect.get(value, key);
    } catch (error) {
      const thrown = error instanceof Error ? error.message : String(error);
      return this.#refuse(
        { of: place, step: stepTo(key) },
        `a getter that throws (${thrown})`,
        'send its value',
      );
    }
  }

  #refuse(place: ValuePath, kind: string, advice: string): never {
    const path = pathOf(place);
    throw new ConfigError(`${this.#caller}: ${path} is ${kind}, which cannot be sent; ${advice}`, { path });
  }
}

/** Returns the keys of an array that are not indices. */
function besideElements(value: readonly unknown[]): string[] {
  const keys = Object.keys(value);
  // Indices come first.
  const last = keys.findLastIndex((key) => String(Number(key)) === key && Number(key) < value.length);
  return keys.slice(last + 1);
}

/** What to send instead of an object that is not plain. */
export const PLAIN = 'send plain values, arrays, typed arrays, Maps or Sets';

/** Returns the kind of an object that is not plain, and what to send instead. */
function otherKind(value: object): readonly [string, string] | undefined {
  if (value instanceof Tensor)
    return [`a tensor [${value.shape.join(', ')}]`, 'send its values: x.arraySync() or x.dataSync()'];
  if (types.isPromise(value)) return ['a promise', 'await it first'];
  if (types.isGeneratorObject(value)) return ['a generator', 'send an array, as [...x]'];
  if (types.isArgumentsObject(value))
    return ['the arguments of a function', 'send an array, as [...arguments]'];
  if (types.isSharedArrayBuffer(value)) return ['shared memory', 'send a copy of it'];
  if (types.isExternal(value)) return ['an object of native code', PLAIN];
  return hasMethods(value) ? [`an instance of ${classNameOf(value)}`, PLAIN] : undefined;
}

/** Whether an object gets properties from its class or prototype, which a copy would not have. Objects of other realms are plain. */
function hasMethods(value: object): boolean {
  for (let own = Object.getPrototypeOf(value); own !== null; ) {
    const next: object | null = Object.getPrototypeOf(own);
    if (next === null) return false;
    if (Reflect.ownKeys(own).some((key) => key !== 'constructor')) return true;
    own = next;
  }
  return false;
}

function classNameOf(value: object): string {
  const made: unknown = value.constructor;
  return typeof made === 'function' && made.name !== '' ? made.name : 'a class without a name';
}

/** The milliseconds at which Python's years begin and end. */
const FIRST_DATE = Date.parse('0001-01-01T00:00:00Z');
const END_DATE = Date.UTC(10_000, 0, 1);

/** Returns a value that is the same for keys that are equal in Python. */
function keyInPython(key: unknown): unknown {
  if (key === undefined) return null;
  if (typeof key === 'boolean') return Number(key);
  const isNumber = typeof key === 'bigint' && Number.isFinite(Number(key)) && BigInt(Number(key)) === key;
  return isNumber ? Number(key) : key;
}

const SHOWN_LENGTH = 40;

function shown(key: unknown): string {
  if (typeof key === 'string') return JSON.stringify(key.slice(0, SHOWN_LENGTH));
  if (typeof key === 'bigint') return `${key}n`;
  return typeof key === 'object' && key !== null ? 'an object' : String(key);
}

function stepTo(key: string): string {
  return /^[\p{ID_Start}$_][\p{ID_Continue}$]{0,80}$/u.test(key) ? `.${key}` : `[${shown(key)}]`;
}

const PATH_LENGTH = 200;

function pathOf(place: ValuePath): string {
  let path = '';
  for (let node: ValuePath | undefined = place; node !== undefined; node = node.of) path = node.step + path;
  const half = PATH_LENGTH / 2;
  return path.length <= PATH_LENGTH ? path : `${path.slice(0, half)}…${path.slice(-half)}`;
}
