import type { AbortReason } from '../../transport/control-block';

/** The switch that makes every rank's collectives throw. */
export interface AbortSwitch {
  abort(reason: AbortReason): void;
  /** Begins a new epoch, so collectives work again. Call it only while no rank is in a collective. */
  reset(): void;
}
