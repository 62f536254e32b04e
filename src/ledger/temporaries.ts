import type { Bytes } from '../core';
import { memoryAtPeak, memoryOverTime, partBytes } from './memory';
import type { StepRecord } from './record';

/** Temporaries on the device, in two parts. */
export interface Temporaries {
  /** Bytes of temporaries that are used within one unit: results of operations that backward does not need, and scratch. */
  readonly pool: Bytes;
  /** Bytes of temporaries that are passed from unit to unit: outputs that backward does not need, and gradients of inputs. */
  readonly ring: Bytes;
}

/**
 * Returns the temporaries at the step's peak, and the maximum of each part over the step (null without a curve).
 *
 * [Note: pool and ring] Buffers are made and freed one by one; there is no pool with a configured size. The size that a
 * pool and a ring of buffers would need follows from the time at which buffers are freed: within a unit (pool), or after
 * the next unit has used them (ring). A unit's output and the gradients of its inputs are tagged as ring when the unit
 * ends, which is one retag per unit and direction; all other temporaries are pool. Buffers of collectives are no
 * temporaries: they have the cause 'comm'. All-gathers and reductions have no staging ([Note: no staging buffers]).
 */
export function temporaries(record: StepRecord): {
  readonly atPeak: Temporaries;
  readonly most: Temporaries | null;
} {
  const { owners, atPeak, curve } = record.memory;
  const { byCause: causes, ring } = memoryOverTime(record);
  const pool = causes.temp.map((bytes, i) => bytes - (ring[i] ?? 0));
  const ringAtPeak = partBytes(owners, atPeak, 'ring');
  return {
    atPeak: { pool: memoryAtPeak(record).temp - ringAtPeak, ring: ringAtPeak },
    most: curve === null ? null : { pool: Math.max(...pool), ring: Math.max(...ring) },
  };
}
