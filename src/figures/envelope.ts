import { MEMORY_CAUSES, type MemoryCause } from '../core/events';
import type { Bytes } from '../core/units';
import type { MemoryOverTime } from '../ledger/memory';

/**
 * A curve with at most about `maxPoints` points: of each stretch of time the moment at which most was held, so that
 * the peak stays exact. Short curves stay as they are.
 */
export function thinned(curve: MemoryOverTime, maxPoints: number): MemoryOverTime {
  const count = curve.seconds.length;
  if (count <= maxPoints) return curve;
  const end = curve.seconds[count - 1] ?? 0;
  const bin = (i: number): number => Math.floor(((curve.seconds[i] ?? 0) / (end || 1)) * (maxPoints - 2));
  const kept: number[] = [];
  for (let i = 0; i < count; ) {
    let best = i;
    let next = i;
    for (; next < count && bin(next) === bin(i); next++) {
      if ((curve.total[next] ?? 0) > (curve.total[best] ?? 0)) best = next;
    }
    kept.push(best);
    i = next;
  }
  if (kept.at(-1) !== count - 1) kept.push(count - 1);
  const pick = (values: readonly number[]): number[] => kept.map((i) => values[i] ?? 0);
  const byCause = {} as Record<MemoryCause, readonly Bytes[]>; // filled for every cause on the next line
  for (const cause of MEMORY_CAUSES) byCause[cause] = pick(curve.byCause[cause]);
  return { seconds: pick(curve.seconds), byCause, total: pick(curve.total), ring: pick(curve.ring) };
}
