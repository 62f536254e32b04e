import type { Bytes } from '../core/units';
import type { Owner, StepRecord } from './record';

/** Temporaries on the device, in two parts. */
export interface Temporaries {
  /** Temporaries within one unit: unsaved results of operations, scratch. */
  readonly pool: Bytes;
  /** Temporaries passed from unit to unit: unsaved outputs, gradients with respect to inputs. */
  readonly ring: Bytes;
}

/**
 * Temporaries at the step's peak, and the maximum of each part over the step (null without a curve).
 *
 * [Note: pool and ring] Buffers are made and freed one by one; there is no pool with a configured size. The size that a
 * pool and a ring of buffers would need follows from the moment when buffers are freed: within a unit (pool), or after
 * the next unit took them over (ring). A unit's output and the gradients of its inputs are tagged as ring when the unit
 * ends, which is one retag per unit and direction; all other temporaries are pool. Staging of collectives is neither:
 * it has the cause 'comm', and gathers and reductions have none ([Note: no staging buffers]).
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
