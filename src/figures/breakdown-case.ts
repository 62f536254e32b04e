import type { MemoryCause } from '../core/events';
import type { Bytes } from '../core/units';
import type { Estimate } from '../plan/prediction';
import { STACK_ORDER } from './grammar/palette';

export type CauseBytes = Readonly<Partial<Record<MemoryCause, Bytes>>>;

/** What one case holds at its peak, by cause, as it is told from up to three sides. A cause left out is not named there. */
export interface BreakdownCase {
  /** As '8 x A100-80G, Wan 27B'. */
  readonly name: string;
  readonly documented?: CauseBytes | undefined;
  readonly predicted?: CauseBytes | undefined;
  readonly measured?: CauseBytes | undefined;
  /** Range of the predicted sum. */
  readonly predictedPeak?: Estimate | undefined;
  /** Of the card. */
  readonly capacityBytes?: Bytes | undefined;
}

export const SOURCES = ['documented', 'predicted', 'measured'] as const;
export type Source = (typeof SOURCES)[number];

/** The sum of a source's causes. */
export function totalOf(bytes: CauseBytes): Bytes {
  return STACK_ORDER.reduce((sum, cause) => sum + (bytes[cause] ?? 0), 0);
}
