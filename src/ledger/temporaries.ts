import type { Bytes } from '../core/units';
import type { Owner, StepRecord } from './record';

/** Temporaries on the device, in two parts. */
export interface Temporaries {
  /** Live within one unit: results of operations that nobody saves, scratch. */
  readonly pool: Bytes;
  /** Handed from unit to unit: outputs that nobody saves, gradients with respect to inputs. */
  readonly ring: Bytes;
}

/**
 * Temporaries at the moment of the step's most bytes, and the most that each part was at any moment (null without a curve).
 *
 * [Note: pool and ring] Buffers are made and freed one by one; there is no pool whose size would be a setting. What a pool
 * and a ring of buffers would have to hold is told by whose end frees them: within a unit (pool), or after the next one took
 * it over (ring). A unit's output and the gradients of its inputs are tagged as ring when it ends, which is one retag a unit and
 * direction; all other temporaries are pool. Staging of collectives is neither: it has the cause 'comm', and gathers and
 * reductions have none ([Note: no staging buffers]).
 */
export function temporaries(record: StepRecord): {
  readonly atPeak: Temporaries;
  readonly most: Temporaries | null;
} {
  const { owners, atPeak, atStart, curve } = record.memory;
  const now = partsOf(owners, atStart);
  const most = { ...now };
  curve?.owner.forEach((index, i) => {
    const owner = owners[index];
    if (owner === undefined || !isTemporary(owner)) return;
    const part = partOf(owner);
    now[part] += curve.deltaBytes[i] ?? 0;
    most[part] = Math.max(most[part], now[part]);
  });
  return { atPeak: partsOf(owners, atPeak), most: curve === null ? null : most };
}

function partsOf(owners: readonly Owner[], bytes: readonly Bytes[]): { pool: Bytes; ring: Bytes } {
  const parts = { pool: 0, ring: 0 };
  owners.forEach((owner, i) => {
    if (isTemporary(owner)) parts[partOf(owner)] += bytes[i] ?? 0;
  });
  return parts;
}

function isTemporary({ cause, space }: Owner): boolean {
  return cause === 'temp' && space === 'device';
}

function partOf({ part }: Owner): keyof Temporaries {
  return part ?? 'pool';
}
