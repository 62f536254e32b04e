import { MEMORY_CAUSES, type MemoryCause, type Tag } from '../../core/events';
import type { DryRunEvent } from '../dry-run/event-log';

/** What the device holds after one allocation, by cause in MEMORY_CAUSES' order. */
export interface TracePoint {
  /** What was allocated, without the layer's number: equal labels in equal order are the same moments of two runs. */
  readonly label: string;
  readonly bytes: readonly number[];
}

/** Layers that are left out of a trace: `count` of them from number `first` on. */
export interface LeftOut {
  readonly first: number;
  readonly count: number;
}

const CAUSE_INDEX = Object.fromEntries(MEMORY_CAUSES.map((cause, index) => [cause, index])) as Record<
  MemoryCause,
  number
>; // one entry a cause

const LAYER = /(^|\.)(?:blocks|layers)\.(\d+)(?=\.|$)/;

/**
 * The moments of a dry run at which the device held more than before, but for those of the layers left out. What these hold
 * still counts: only their own moments are missing.
 */
export function traceOf(steps: readonly (readonly DryRunEvent[])[], leftOut: LeftOut | null): TracePoint[] {
  const buffers = new Map<number, { readonly bytes: number; tag: Tag }>();
  const held = MEMORY_CAUSES.map(() => 0);
  const stretches: (number | null)[] = [];
  const points: TracePoint[] = [];
  const add = (tag: Tag, bytes: number): void => {
    const index = CAUSE_INDEX[tag.cause];
    held[index] = (held[index] ?? 0) + bytes;
  };
  const isLeftOut = (module: string): boolean => {
    if (leftOut === null) return false;
    const own = stretches.findLast((layer) => layer !== null) ?? layerOf(module);
    return own !== null && own >= leftOut.first && own < leftOut.first + leftOut.count;
  };
  for (const event of steps.flat()) {
    if (event.kind === 'entered') stretches.push(layerOf(event.module));
    else if (event.kind === 'span') stretches.pop();
    else if (event.kind === 'allocated' && event.space === 'device') {
      buffers.set(event.buffer, { bytes: event.bytes, tag: event.tag });
      add(event.tag, event.bytes);
      const { cause, module } = event.tag;
      if (!isLeftOut(module))
        points.push({ label: `${cause} ${module.replace(LAYER, '$1*')}`, bytes: [...held] });
    } else if (event.kind === 'retagged' || event.kind === 'freed') {
      const buffer = buffers.get(event.buffer);
      if (buffer === undefined) continue;
      add(buffer.tag, -buffer.bytes);
      if (event.kind === 'retagged') {
        buffer.tag = event.tag;
        add(buffer.tag, buffer.bytes);
      } else buffers.delete(event.buffer);
    }
  }
  return points;
}

function layerOf(module: string): number | null {
  const found = LAYER.exec(module)?.[2];
  return found === undefined ? null : Number(found);
}
