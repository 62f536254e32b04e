import { inspect } from 'node:util';
import { isPromise, isUint8Array } from 'node:util/types';
import { ConfigError } from '../core';

/** A value in several media types, of which the front end picks one. The values are plain JSON, with binary values in base64. */
export type MimeBundle = Readonly<Record<string, unknown>>;

/** Key of the method with which a value defines its display (the convention of Deno's kernel). */
export const DISPLAY_METHOD: unique symbol = Symbol.for('Jupyter.display');

const PNG_SIGNATURE = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]);

/**
 * Returns a value's display: the bundle of its display method, else text (also if the method returns no bundle). Rejects
 * with the error of a display method that throws.
 */
export async function toMimeBundle(value: unknown): Promise<MimeBundle> {
  const method = readable(() => displayMethod(value));
  if (method === undefined) return plainBundle(value);
  const bundle: unknown = await method.call(value);
  return isBundle(bundle) ? encodeBinary(bundle) : plainBundle(value);
}

/**
 * Returns a value as the text that a notebook shows: `[ 1, 4, 9 ]`. If code of the value throws when it is read (a getter, a
 * proxy, its own display for `inspect`), the text is that of its plain fields, and says what was thrown. Never throws.
 */
export function toPlainText(value: unknown): string {
  const options = { depth: 4, maxStringLength: 100_000 };
  try {
    return tensorText(value) ?? withoutTraces(inspect(value, options));
  } catch (error) {
    const plain = readable(() => inspect(value, { ...options, customInspect: false, getters: false }));
    const kind = readable(() => Object.prototype.toString.call(value)) ?? `[${typeof value}]`;
    return `${plain ?? kind} (reading this value throws ${readable(() => String(error)) ?? 'an error'})`;
  }
}

/** A property that Node adds to promises while a subshell or a library traces their origin. */
const TRACE = /,\s*\[Symbol\((?:(?:trigger_)?async_id_symbol|kResourceStore)\)\]: \S+?(?=,?\s)/g;

/** Writes promises without what Node adds to them. */
function withoutTraces(text: string): string {
  return text.includes('[Symbol(')
    ? text.replace(TRACE, '').replace(/Promise \{\n\s+([^\n]*)\n\s*\}/g, 'Promise { $1 }')
    : text;
}

/** Returns what `read` returns; undefined if the code of a value that it reads throws. */
function readable<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch {
    return undefined;
  }
}

/** Writes byte arrays of a bundle in base64, as the Jupyter protocol requires. */
export function encodeBinary(bundle: MimeBundle): MimeBundle {
  const entries = Object.entries(bundle).map(([type, value]) =>
    value instanceof Uint8Array ? [type, Buffer.from(value).toString('base64')] : [type, value],
  );
  return Object.fromEntries(entries);
}

/**
 * Returns the bundle in the form of the Jupyter protocol: binary values in base64, the rest as JSON.
 * Throws: CONFIG for values that JSON cannot hold (a cycle, a bigint).
 */
export function toWireBundle(bundle: MimeBundle): MimeBundle {
  try {
    // Most values in bundles are strings, which need no copy.
    const plain = Object.values(bundle).every((value) => typeof value === 'string');
    return plain ? bundle : JSON.parse(JSON.stringify(encodeBinary(bundle)));
  } catch (cause) {
    const types = Object.keys(bundle).join(', ');
    throw new ConfigError(
      `a display of ${types} cannot be sent: ${String(cause)}; give values that JSON can hold`,
    );
  }
}

function plainBundle(value: unknown): MimeBundle {
  const text = isPromise(value) ? promiseText(value) : toPlainText(value);
  if (isUint8Array(value) && PNG_SIGNATURE.equals(value.subarray(0, 8))) {
    return { 'image/png': Buffer.from(value).toString('base64'), 'text/plain': text };
  }
  return { 'text/plain': text };
}

function promiseText(promise: Promise<unknown>): string {
  const text = toPlainText(promise);
  return text.includes('<pending>') ? `${text}: write await before the expression to see the value` : text;
}

function displayMethod(value: unknown): (() => unknown) | undefined {
  if (value === null || (typeof value !== 'object' && typeof value !== 'function')) return undefined;
  // Reading a symbol's property from any object is safe; the property's type is checked below.
  const method = (value as { [DISPLAY_METHOD]?: unknown })[DISPLAY_METHOD];
  // By convention, a display method takes no argument.
  return typeof method === 'function' ? (method as () => unknown) : undefined;
}

function isBundle(value: unknown): value is MimeBundle {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** A tensor of tfjs, of any copy of the package. */
export interface TensorLike {
  readonly dataId: object;
  readonly dtype: string;
  readonly shape: readonly number[];
  readonly isDisposed: boolean;
  toString(): string;
}

/** Returns a tensor's type, shape and values as text; undefined for a value that is not a tensor. */
export function tensorText(value: unknown): string | undefined {
  if (!isTensor(value)) return undefined;
  const head = `${value.dtype}[${value.shape.join(', ')}]`;
  if (value.isDisposed) return `${head} (disposed)`;
  return `${head}\n${value.toString().replace(/^Tensor\n/, '')}`;
}

/**
 * Makes `console.log` and other inspections show tensors of this class as `tensorText`, also within arrays and objects.
 */
export function showTensorValues(tensorClass: unknown): void {
  if (typeof tensorClass !== 'function') return;
  Object.defineProperty(tensorClass.prototype, inspect.custom, {
    configurable: true,
    value(this: unknown): string {
      return tensorText(this) ?? 'Tensor';
    },
  });
}

/** Whether a value is a tensor of tfjs. */
export function isTensor(value: unknown): value is TensorLike {
  return (
    typeof value === 'object' &&
    value !== null &&
    'dataId' in value &&
    'dtype' in value &&
    'isDisposed' in value &&
    'shape' in value &&
    Array.isArray(value.shape)
  );
}
