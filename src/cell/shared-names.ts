/**
 * [Note: shared names] A cell's code and all libraries of its process share one global scope. In V8's REPL mode, a `let` at the
 * top level of a cell would hide the global of this name from the libraries too: after `const process = 5`, or after an import
 * of `setTimeout` from 'node:timers/promises', Node itself could no longer answer. So the compiler gives a cell's top-level
 * variable with such a name another name (`process$cell`) in the JavaScript of all cells that mean this variable.
 */
const LANGUAGE = `
  Object Function Array Number parseFloat parseInt Infinity NaN undefined Boolean String Symbol Date Promise RegExp Error
  AggregateError SuppressedError EvalError RangeError ReferenceError SyntaxError TypeError URIError globalThis JSON Math Intl
  Iterator ArrayBuffer SharedArrayBuffer Atomics WebAssembly Uint8Array Int8Array Uint16Array Int16Array Uint32Array Int32Array
  Float16Array Float32Array Float64Array Uint8ClampedArray BigUint64Array BigInt64Array DataView Map BigInt Set WeakMap WeakSet
  WeakRef FinalizationRegistry Proxy Reflect decodeURI decodeURIComponent encodeURI encodeURIComponent escape unescape eval
  isFinite isNaN DisposableStack AsyncDisposableStack Temporal process global Buffer clearImmediate setImmediate clearInterval
  clearTimeout setInterval setTimeout queueMicrotask structuredClone
`;

const WEB = `
  console atob btoa performance fetch crypto navigator URL URLSearchParams URLPattern DOMException AbortController AbortSignal
  Event EventTarget EventSource CustomEvent CloseEvent TextEncoder TextDecoder TransformStream TransformStreamDefaultController
  WritableStream WritableStreamDefaultController WritableStreamDefaultWriter ReadableStream ReadableStreamDefaultReader
  ReadableStreamBYOBReader ReadableStreamBYOBRequest ReadableByteStreamController ReadableStreamDefaultController
  ByteLengthQueuingStrategy CountQueuingStrategy TextEncoderStream TextDecoderStream CompressionStream DecompressionStream
  BroadcastChannel MessageChannel MessagePort MessageEvent Blob File Performance PerformanceEntry PerformanceMark
  PerformanceMeasure PerformanceObserver PerformanceObserverEntryList PerformanceResourceTiming FormData Headers Request
  Response Crypto CryptoKey SubtleCrypto Navigator WebSocket Storage localStorage sessionStorage ErrorEvent QuotaExceededError
`;

/** The globals of web interfaces and the console, for which a program may set a stand-in. */
export const WEB_NAMES: ReadonlySet<string> = wordsOf(WEB);

/** The names of the globals of JavaScript and Node. */
export const SHARED_NAMES: ReadonlySet<string> = new Set([...wordsOf(LANGUAGE), ...WEB_NAMES]);

/** Returns the name under which the JavaScript of cells declares a top-level variable. */
export function nameInCells(name: string): string {
  return SHARED_NAMES.has(name) ? `${name}$cell` : name;
}

function wordsOf(text: string): Set<string> {
  return new Set(text.trim().split(/\s+/));
}
