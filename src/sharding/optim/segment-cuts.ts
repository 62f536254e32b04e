import type { Parameter, Span, StateBuffer, StateSegment, StateSlice } from '../../nn';

/** Returns the slices that are in a segment. */
export function slicesIn(buffer: StateBuffer, { offset, length }: StateSegment): StateSlice[] {
  return buffer.slices.filter((slice) => {
    return slice.offset === offset || (slice.offset > offset && slice.offset < offset + length);
  });
}

/**
 * Divides a segment at the borders between parameters of different kinds, so that all parameters of a part have the same
 * `kindOf`.
 */
export function cutByKind<K>(
  buffer: StateBuffer,
  segment: StateSegment,
  kindOf: (parameter: Parameter) => K,
): { readonly part: StateSegment; readonly kind: K }[] {
  const parts: { from: number; kind: K }[] = [];
  for (const { parameter, offset } of slicesIn(buffer, segment)) {
    const kind = kindOf(parameter);
    if (parts.at(-1)?.kind !== kind || parts.length === 0) parts.push({ from: offset, kind });
  }
  const end = segment.offset + segment.length;
  return parts.map(({ from, kind }, i) => ({
    part: between(segment, from, parts[i + 1]?.from ?? end),
    kind,
  }));
}

function between(segment: StateSegment, from: number, to: number): StateSegment {
  const by = from - segment.offset;
  return {
    offset: from,
    length: to - from,
    values: moved(segment.values, by),
    grad: segment.grad && moved(segment.grad, by),
  };
}

function moved(span: Span, by: number): Span {
  return { ...span, offset: span.offset + by };
}
