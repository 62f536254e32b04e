import { clearUnbroken, isUnbroken, unbroken } from '../../cell';
import { ShardlabError } from '../../core';
import type { Interrupts } from '../../engine';
import type { CourierHandle } from '../control/courier-handle';

/** The number that means that no work runs. */
const NONE = 0;

/** Ends a rank's interrupted work at its next operation. [Note: interrupted operations] */
export class WorkInterrupts implements Interrupts {
  readonly unbroken = unbroken;
  readonly #courier: Pick<CourierHandle, 'isInterrupted'>;
  #running = NONE;

  constructor(courier: Pick<CourierHandle, 'isInterrupted'>) {
    this.#courier = courier;
  }

  /** Notes that a work begins, and removes marks that the termination of an earlier work may have left. */
  begin(id: number): void {
    clearUnbroken();
    this.#running = id;
  }

  end(): void {
    this.#running = NONE;
  }

  check(): void {
    if (this.#running === NONE || !this.#courier.isInterrupted(this.#running) || isUnbroken()) return;
    throw interruptedWork();
  }
}

/** Returns the error of interrupted work. */
export function interruptedWork(): ShardlabError {
  return new ShardlabError('INTERRUPTED', 'the work was interrupted; variables keep their values');
}
