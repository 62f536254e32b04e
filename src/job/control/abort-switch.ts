import type { AbortReason } from '../../transport/control-block';

/** The switch that makes every rank's collectives throw. */
export interface AbortSwitch {
  abort(reason: AbortReason): void;
  /** A new epoch: collectives work again. Only while no rank is in one. */
  reset(): void;
}
