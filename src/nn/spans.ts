import type { Tag } from '../core';
import * as tf from '../core/tf';
import type { Engine } from '../engine';
import { isOnHost, type Parameter, type Span } from './parameter';

// These functions work for elements on the device and on the host.

/** Allocates a flat float32 array of zeros; the caller must dispose it. */
export function zerosIn(space: 'device' | 'host', engine: Engine, length: number, tag: Tag): Span {
  const span =
    space === 'host'
      ? { host: engine.host.allocate(length, tag), offset: 0 }
      : { tensor: tf.keep(engine.allocate([length], 'float32', tag)), offset: 0 };
  fillAll(engine, span, 0);
  return span;
}

/** Sets every element of a span's array. */
export function fillAll(engine: Engine, span: Span, value: number): void {
  if (isOnHost(span)) engine.host.fill(span.host, value);
  else engine.fill(span.tensor, value);
}

/** Sets elements from the span's start on. */
export function fillElements(engine: Engine, span: Span, value: number, length: number): void {
  if (length > 0 && engine.hasValues) floatsOf(engine, span, length).fill(value);
}

/** Frees a span's array. */
export function disposeSpan(span: Span): void {
  if (isOnHost(span)) span.host.dispose();
  else span.tensor.dispose();
}

/** Returns a view of elements, without a copy; the view is valid until the next allocation. */
export function floatsOf(engine: Engine, span: Span, length: number): Float32Array {
  const bytes = isOnHost(span) ? span.host.bytesView() : engine.storage(span.tensor).view();
  return new Float32Array(bytes.buffer, bytes.byteOffset + 4 * span.offset, length);
}

/** Copies elements from one span to another. */
export function copyElements(engine: Engine, from: Span, to: Span, length: number): void {
  if (length > 0 && engine.hasValues) floatsOf(engine, to, length).set(floatsOf(engine, from, length));
}

/** Multiplies elements by a factor, in place. */
export function scaleElements(engine: Engine, span: Span, factor: number, length: number): void {
  if (isOnHost(span)) engine.host.scale(span.host, factor, span.offset, length);
  else engine.scale(span.tensor, factor, span.offset, length);
}

/**
 * Returns the sum of squares in float64. The sum is finite if all elements are finite, because their squares cannot overflow in
 * float64.
 */
export function sumOfSquares(engine: Engine, span: Span, length: number): number {
  return isOnHost(span)
    ? engine.host.sumOfSquares(span.host, span.offset, length)
    : engine.sumOfSquares(span.tensor, span.offset, length);
}

/** Consecutive elements on the device or on the host. */
export interface SpanOf {
  readonly span: Span;
  readonly length: number;
}

/** Returns the spans that hold a parameter's gradient on this rank; an empty list if there is no gradient. */
export function gradSpansOf(parameter: Parameter): SpanOf[] {
  const { state } = parameter;
  const slices = state.slices.filter((slice) => slice.parameter === parameter);
  return slices.flatMap(({ offset, length }) =>
    state.segments().flatMap((segment) => {
      const from = Math.max(offset, segment.offset);
      const to = Math.min(offset + length, segment.offset + segment.length);
      if (segment.grad === null || from >= to) return [];
      const span = { ...segment.grad, offset: segment.grad.offset + from - segment.offset };
      return [{ span, length: to - from }];
    }),
  );
}
