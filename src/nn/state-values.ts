import type { Engine } from '../engine';
import type { Parameter, Span, StateBuffer } from './parameter';
import { floatsOf } from './spans';

/**
 * Returns the distinct state buffers of trainable parameters, in order of first appearance. A parameter that was frozen after its
 * backward still has a gradient: as in torch, the next step uses this gradient, and zeroGrad frees it.
 */
export function stateBuffers(parameters: Iterable<Parameter>): StateBuffer[] {
  const buffers = new Set<StateBuffer>();
  for (const parameter of parameters) {
    if (parameter.requiresGrad || parameter.hasWholeGrad) buffers.add(parameter.state);
  }
  return [...buffers];
}

/**
 * Returns a copy of a buffer's elements from `offset` on. Elements without a segment (padding, a missing gradient) are
 * 0.
 */
export function readState(
  engine: Engine,
  buffer: StateBuffer,
  content: 'values' | 'grad' = 'values',
  offset = 0,
  length = buffer.size - offset,
): Float32Array {
  const read = new Float32Array(length);
  for (const part of spansOf(buffer, content, offset, length)) {
    read.set(floatsOf(engine, part.span, part.length), part.at);
  }
  return read;
}

/** Writes values to a buffer's elements, from `offset` on, and marks the buffer as changed. */
export function writeState(engine: Engine, buffer: StateBuffer, offset: number, values: Float32Array): void {
  writePart(engine, buffer, offset, values);
  buffer.updated();
}

/** Writes one of several parts of a buffer; the caller marks the buffer as changed after it has written all parts. */
export function writePart(engine: Engine, buffer: StateBuffer, offset: number, values: Float32Array): void {
  for (const { span, at, length } of spansOf(buffer, 'values', offset, values.length)) {
    floatsOf(engine, span, length).set(values.subarray(at, at + length));
  }
}

/** Elements of a buffer that are consecutive in memory. */
interface Overlap {
  readonly span: Span;
  /** The index of the overlap's first element in the range from `offset` on, which is read or written. */
  readonly at: number;
  readonly length: number;
}

/** Returns where a range of a buffer's elements is in memory; elements without a segment are left out. */
export function spansOf(
  buffer: StateBuffer,
  content: 'values' | 'grad',
  offset: number,
  length: number,
): Overlap[] {
  return buffer.segments().flatMap((segment) => {
    const span = segment[content];
    const from = Math.max(offset, segment.offset);
    const to = Math.min(offset + length, segment.offset + segment.length);
    if (span === null || to <= from) return [];
    const start = span.offset + from - segment.offset;
    return [{ span: { ...span, offset: start }, at: from - offset, length: to - from }];
  });
}
