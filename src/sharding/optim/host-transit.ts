import type { Bytes } from '../../core';
import { type Engine, type HostArray, undone } from '../../engine';
import { isOnHost, type Span, type StateSegment } from '../../nn';
import type { BufferState, ParamGroup } from './update-rule';

/** The maximum size of a copied chunk, in bytes; values and gradients have separate chunks. */
const CHUNK_BYTES: Bytes = 2 ** 20;
const ITEM_BYTES = 4;

/** A segment whose parameters are all in one group and had the same number of updates. */
export interface SteppedSegment extends StateSegment {
  /** The number of updates, including this one; for bias correction. */
  readonly step: number;
  /** The group, with its rate and settings. */
  readonly group: ParamGroup;
}

/** The module and the granularity of the state buffer that is updated. */
interface Updated {
  readonly module: string;
  /** Chunks end at multiples of this number of elements. */
  readonly granularity: number;
}

/**
 * Runs updates on the host. Values and gradients on the device are copied to the host in chunks, and updated values are
 * copied back; ledgers count the chunks on the host under the cause 'comm' of the module. Source: ZeRO-Offload (Ren et al.
 * 2021), section 4.1.
 */
export function updateOnHost(
  engine: Engine,
  state: BufferState<HostArray>,
  { module, granularity }: Updated,
  segments: readonly SteppedSegment[],
  gradScale: number,
): void {
  const { host } = engine;
  const chunk = Math.max(1, Math.floor(CHUNK_BYTES / ITEM_BYTES / granularity)) * granularity;
  const rooms = new Map<'values' | 'grad', HostArray>();
  /** Returns the span's array if it is on the host; otherwise an array for copies of `length` elements. */
  const arrayFor = (content: 'values' | 'grad', span: Span, length: number): HostArray => {
    if (isOnHost(span)) return span.host;
    const there = rooms.get(content);
    if (there !== undefined && there.length >= length) return there;
    there?.dispose();
    const made = host.allocate(length, { cause: 'comm', module });
    rooms.set(content, made);
    return made;
  };
  const updateSegment = ({ values, grad, offset, length, step, group }: SteppedSegment): void => {
    const isThere = isOnHost(values) && grad !== null && isOnHost(grad);
    // Empty segments on the host are updated too, as empty segments are in an update on the device.
    if (grad === null || (length === 0 && !isThere)) return;
    let from = 0;
    do {
      const end = Math.floor((offset + from) / granularity) * granularity + chunk - offset;
      const to = isThere ? length : Math.min(length, end);
      const size = to - from;
      const param = arrayFor('values', values, Math.min(length, chunk));
      const gradient = arrayFor('grad', grad, Math.min(length, chunk));
      const offsets = {
        param: isOnHost(values) ? values.offset + from : 0,
        grad: isOnHost(grad) ? grad.offset + from : 0,
      };
      if (!isOnHost(values)) host.fromDevice(values.tensor, values.offset + from, size, param, 0);
      if (!isOnHost(grad)) host.fromDevice(grad.tensor, grad.offset + from, size, gradient, 0);
      const range = { offset: offset + from, length: size, step, gradScale, ...group };
      state.update({ param, grad: gradient, offsets, ...range });
      if (!isOnHost(values)) host.toDevice(param, 0, size, values.tensor, values.offset + from);
      from = to;
    } while (from < length);
  };
  const release = (): void => {
    for (const room of rooms.values()) room.dispose();
  };
  undone(engine, release, () => segments.forEach(updateSegment));
}
