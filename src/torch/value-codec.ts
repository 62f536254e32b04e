import { types } from 'node:util';
import { ConfigError, classOf, formatBytes, ShardlabError } from '../core';
import { requireSendable } from '../launch';

/*
 * [Note: values in Python] A value travels as bytes: length of the text (u32) | JSON | the bytes of arrays, little-endian. In the
 * JSON, an object has always one key, which names a type that JSON does not have; so no object of a user can be taken for a type.
 *
 *   JavaScript                       JSON                                   Python
 *   null, undefined                  null                                   None
 *   boolean, text, Array             as it is                               bool, str, list (back also from tuple)
 *   number                           as it is, or {"number": "NaN"}         int if it is whole and below 2^53, else float
 *   bigint                           {"bigint": "-ff"}                      BigInt (an int)
 *   object                           {"object": {…}}                        dict with texts as keys
 *   Map                              {"map": [[key, value], …]}             Map (a dict); back also from a dict with other keys
 *   Set                              {"set": […]}                           set (back also from frozenset)
 *   Date                             {"date": milliseconds}                 datetime with time zone UTC
 *   Error                            {"error": {name, message, stack, …}}   JavaScriptError (back from any exception)
 *   typed arrays                     {"array": {type, at, length}}          numpy.ndarray; array.array where numpy is missing
 *   Buffer, ArrayBuffer, DataView    {"bytes": …}, {"buffer": …}, {"view": …}   bytes, bytearray, memoryview
 *   Array of Arrays                  {"tensor": {type, shape, at}}          torch.Tensor, numpy.ndarray of other dims (only back)
 *
 * An int of Python that no number of JavaScript equals comes back as a bigint. src/python/shardlab_torch/values.py is the other side.
 */

const LENGTH_BYTES = 4;
/** The longest text of JSON that JavaScript can read, and the most bytes that a frame of the link can have. */
const MOST_TEXT_BYTES = 2 ** 28;
const MOST_BYTES = 2 ** 30 - 2 ** 16;
/** V8's limit of a text. */
const MOST_TEXT_LENGTH = 2 ** 29 - 24;

/** Returns the bytes that Python reads as a dict of these values. Throws: CONFIG for what Python cannot get; `what` is the called function. */
export function encodeValues(values: Readonly<Record<string, unknown>>, what: string): Buffer {
  const names = Object.keys(values);
  for (const name of names) requireSendable(values[name], what, name, 'Python');
  const encoder = new Encoder();
  const text = Buffer.from(stringify(encoder.encode(values), what));
  const size = LENGTH_BYTES + text.length + encoder.numBytes;
  if (text.length > MOST_TEXT_BYTES || size > MOST_BYTES) throw tooLarge(what, size);
  const length = Buffer.alloc(LENGTH_BYTES);
  length.writeUInt32BE(text.length);
  return Buffer.concat([length, text, ...encoder.parts], size);
}

/** Returns the value that Python sent as these bytes. Throws: errors of bytes that Python did not write. */
export function decodeValue(bytes: Buffer): unknown {
  const end = LENGTH_BYTES + bytes.readUInt32BE();
  const json: unknown = JSON.parse(bytes.toString('utf8', LENGTH_BYTES, end));
  return decode(json, bytes.subarray(end));
}

function stringify(json: unknown, what: string): string {
  try {
    return JSON.stringify(json);
  } catch (error) {
    // The text would be longer than a text can be.
    if (!(error instanceof RangeError)) throw error;
    throw tooLarge(what, MOST_TEXT_LENGTH);
  }
}

function tooLarge(what: string, size: number): ConfigError {
  return new ConfigError(
    `${what}: the values take ${formatBytes(size)} or more, but at most ${formatBytes(MOST_BYTES)}, of which ${formatBytes(MOST_TEXT_BYTES)} are not ` +
      'in typed arrays, can be sent at once; send them in parts, or write a file that ranks read',
  );
}

/** The place of some bytes after the text. */
interface Range {
  readonly at: number;
  readonly length: number;
}

/** Converts values to JSON, and gathers the bytes of their arrays. */
class Encoder {
  readonly parts: Buffer[] = [];
  numBytes = 0;

  encode(value: unknown): unknown {
    if (typeof value === 'number') return encodeNumber(value);
    if (typeof value === 'bigint') return { bigint: value.toString(16) };
    if (typeof value !== 'object' || value === null) return value ?? null;
    if (Array.isArray(value)) return Array.from(value, (item) => this.encode(item));
    if (types.isMap(value)) return { map: Array.from(value, (entry) => this.encode(entry)) };
    if (types.isSet(value)) return { set: Array.from(value, (item) => this.encode(item)) };
    if (types.isDate(value)) return { date: value.getTime() };
    if (types.isNativeError(value)) return { error: this.#encodeError(value) };
    if (types.isArrayBuffer(value)) return { buffer: this.#add(Buffer.from(value)) };
    if (ArrayBuffer.isView(value)) return this.#encodeView(value);
    const entries = Object.keys(value).map((key) => [key, this.encode(Reflect.get(value, key))]);
    return { object: Object.fromEntries(entries) };
  }

  #encodeView(value: ArrayBufferView): object {
    const range = this.#add(Buffer.from(value.buffer, value.byteOffset, value.byteLength));
    if (Buffer.isBuffer(value)) return { bytes: range };
    if (types.isDataView(value)) return { view: range };
    const type = DTYPES[String(Reflect.get(value, Symbol.toStringTag))];
    if (type === undefined) throw new ShardlabError('INTERNAL', `unknown kind of array ${classOf(value)}`);
    return { array: { ...range, type } };
  }

  #encodeError({ name, message, stack, cause }: Error): object {
    const texts = { name: String(name), message: String(message), stack: String(stack ?? '') };
    return (cause ?? null) === null ? texts : { ...texts, cause: this.encode(cause) };
  }

  #add(bytes: Buffer): Range {
    const range = { at: this.numBytes, length: bytes.length };
    this.parts.push(bytes);
    this.numBytes += bytes.length;
    return range;
  }
}

/** The types of typed arrays by their names. */
const DTYPES: Readonly<Record<string, string>> = {
  Int8Array: 'int8',
  Uint8Array: 'uint8',
  // Python has no type that rounds to this range.
  Uint8ClampedArray: 'uint8',
  Int16Array: 'int16',
  Uint16Array: 'uint16',
  Int32Array: 'int32',
  Uint32Array: 'uint32',
  BigInt64Array: 'int64',
  BigUint64Array: 'uint64',
  Float16Array: 'float16',
  Float32Array: 'float32',
  Float64Array: 'float64',
};

/**
 * JSON has neither infinite numbers nor -0. JavaScript writes large whole numbers with zeros in place of digits, which Python would
 * read as another int.
 */
function encodeNumber(value: number): unknown {
  if (Object.is(value, -0)) return { number: '-0' };
  const isPlain = Number.isInteger(value) ? Number.isSafeInteger(value) : Number.isFinite(value);
  return isPlain ? value : { number: String(value) };
}

function decode(json: unknown, bytes: Buffer): unknown {
  if (Array.isArray(json)) return json.map((item) => decode(item, bytes));
  if (typeof json !== 'object' || json === null) return json;
  const [tag = '', content] = Object.entries(json)[0] ?? [];
  const read = READERS[tag];
  if (read === undefined)
    throw new ShardlabError('INTERNAL', `a value from Python has the unknown type ${tag}`);
  // Python writes content of this form.
  return read(content as never, bytes);
}

/** The functions that make a value from the content of its type, and from the bytes of arrays. */
const READERS: Readonly<Record<string, (content: never, bytes: Buffer) => unknown>> = {
  number: (text: string) => Number(text),
  bigint: (text: string) => (text.startsWith('-') ? -BigInt(`0x${text.slice(1)}`) : BigInt(`0x${text}`)),
  object: (content: object, bytes) =>
    Object.fromEntries(Object.entries(content).map(([key, value]) => [key, decode(value, bytes)])),
  map: (content: readonly [unknown, unknown][], bytes) =>
    new Map(content.map(([key, value]) => [decode(key, bytes), decode(value, bytes)])),
  set: (content: readonly unknown[], bytes) => new Set(content.map((item) => decode(item, bytes))),
  date: (milliseconds: number) => new Date(milliseconds),
  error: decodeError,
  bytes: (range: Range, bytes) => Buffer.from(bytesAt(range, bytes)),
  buffer: (range: Range, bytes) => bytesAt(range, bytes),
  view: (range: Range, bytes) => new DataView(bytesAt(range, bytes)),
  array: ({ type, ...range }: Range & { type: string }, bytes) => arrayOf(type, bytesAt(range, bytes)),
  tensor: decodeTensor,
};

/** Returns a copy, which begins where typed arrays can begin. */
function bytesAt({ at, length }: Range, bytes: Buffer): ArrayBuffer {
  const copy = new ArrayBuffer(length);
  new Uint8Array(copy).set(bytes.subarray(at, at + length));
  return copy;
}

type AnyArray = ArrayLike<number | bigint>;

const ARRAYS: Readonly<Record<string, new (bytes: ArrayBuffer) => AnyArray>> = {
  int8: Int8Array,
  uint8: Uint8Array,
  int16: Int16Array,
  uint16: Uint16Array,
  int32: Int32Array,
  uint32: Uint32Array,
  int64: BigInt64Array,
  uint64: BigUint64Array,
  float32: Float32Array,
  float64: Float64Array,
};

function arrayOf(type: string, bytes: ArrayBuffer): AnyArray {
  const make = ARRAYS[type];
  if (make === undefined)
    throw new ShardlabError('INTERNAL', `an array from Python has the unknown type ${type}`);
  return new make(bytes);
}

/** Returns nested arrays of a tensor's elements. An element of a long type is a bigint only if no number equals it. */
function decodeTensor(
  { type, shape, ...range }: Range & { readonly type: string; readonly shape: readonly number[] },
  bytes: Buffer,
): unknown {
  const flat = arrayOf(type === 'bool' ? 'uint8' : type, bytesAt(range, bytes));
  const element = (one: number | bigint): unknown => {
    if (type === 'bool') return one === 1;
    return typeof one === 'bigint' && BigInt(Number(one)) === one ? Number(one) : one;
  };
  const nest = (dim: number, start: number, size: number): unknown => {
    const length = shape[dim];
    if (length === undefined) return element(flat[start] ?? 0);
    const each = length === 0 ? 0 : size / length;
    return Array.from({ length }, (_, i) => nest(dim + 1, start + i * each, each));
  };
  return nest(0, 0, flat.length);
}

/** The classes of errors that structured clone restores. */
const ERRORS: readonly ErrorConstructor[] = [
  EvalError,
  RangeError,
  ReferenceError,
  SyntaxError,
  TypeError,
  URIError,
];

function decodeError(
  content: {
    readonly name: string;
    readonly message: string;
    readonly stack: string;
    readonly cause?: unknown;
  },
  bytes: Buffer,
): Error {
  const { name, message, stack } = content;
  const options = 'cause' in content ? { cause: decode(content.cause, bytes) } : undefined;
  const error = new (ERRORS.find((one) => one.name === name) ?? Error)(message, options);
  const hidden = { configurable: true, writable: true, enumerable: false };
  if (error.name !== name) Object.defineProperty(error, 'name', { ...hidden, value: name });
  Object.defineProperty(error, 'stack', { ...hidden, value: stack });
  return error;
}
