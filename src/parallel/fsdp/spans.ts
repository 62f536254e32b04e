import type { Engine } from '../../backend/engine';
import type { Tag } from '../../core/events';
import { isOnHost, type Span } from '../../nn/parameter';

const ITEM_BYTES = 4;

/** A flat float32 array on the device or on the host; the code that makes it disposes it. */
export function allocateFlat(engine: Engine, length: number, tag: Tag, onHost: boolean): Span {
  return onHost
    ? { host: engine.host.allocate(length, tag), offset: 0 }
    : { tensor: engine.allocate([length], 'float32', tag), offset: 0 };
}

/** Sets every element of a span's array. */
export function fillAll(engine: Engine, span: Span, value: number): void {
  if (isOnHost(span)) engine.host.fill(span.host, value);
  else engine.fill(span.tensor, value);
}

/** Copies elements between two spans, each on the device or on the host. */
export function copyElements(engine: Engine, from: Span, to: Span, length: number): void {
  if (length > 0 && engine.hasValues) bytesAt(engine, to, length).set(bytesAt(engine, from, length));
}

/** Frees a span's array. */
export function disposeSpan(span: Span): void {
  if (isOnHost(span)) span.host.dispose();
  else span.tensor.dispose();
}

function bytesAt(engine: Engine, span: Span, length: number): Uint8Array {
  const bytes = isOnHost(span) ? span.host.bytesView() : engine.storage(span.tensor).view();
  return bytes.subarray(ITEM_BYTES * span.offset, ITEM_BYTES * (span.offset + length));
}
