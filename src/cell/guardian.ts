import { Session } from 'node:inspector';
import { readIfThere } from '../core/read-if-there';

/** Ends the main thread's code, from another thread. */
export type Guardian = ReturnType<typeof attachGuardian>;

/**
 * Attaches to the main thread's inspector. Call it in a worker, before the main thread runs code that may block:
 * attaching needs the main thread's help once.
 */
export function attachGuardian() {
  const session = new Session();
  session.connectToMainThread();
  return {
    /**
     * Ends the main thread's running JavaScript: a loop or an Atomics.wait, before or after an await. Has no effect
     * while the main thread waits for the system; see [Note: no termination in a system call].
     */
    terminate(): void {
      if (!waitsForSystem()) session.post('Runtime.terminateExecution');
    },
    close: (): void => session.disconnect(),
  };
}

/**
 * [Note: no termination in a system call] A termination stays pending until JavaScript runs again. Node's own code
 * between a blocking call (spawnSync, a read) and that moment treats a failure of V8 as its own defect and aborts the
 * process, and all variables are lost. So the guardian does not terminate the main thread while it waits for the system.
 * Atomics.wait waits in a futex, and may be terminated.
 */
function waitsForSystem(): boolean {
  const place = readIfThere(`/proc/self/task/${process.pid}/wchan`) ?? '';
  return place !== '' && place !== '0' && !place.includes('futex');
}

export interface StagedInterrupt {
  /** Notifies the main thread; a free main thread then ends its cell. Repeated until it has answered. */
  readonly notify: () => void;
  /**
   * Whether the main thread has answered. It answers after it has handled the interrupt, so that a termination cannot
   * stop the handling.
   */
  readonly answered: () => boolean;
  readonly guardian: Pick<Guardian, 'terminate'>;
  /** The time that blocking code gets to end with an error before it is terminated, in ms. Default 50. */
  readonly graceMs?: number;
}

const GRACE_MS = 50;
/** How often a main thread that blocks again (in the next callback) is terminated again. */
const ATTEMPTS = 20;
/**
 * Each wait for an answer is twice as long as the one before, up to this number of times, because on a busy machine a
 * free main thread may react slowly.
 */
const DOUBLINGS = 4;

/**
 * Interrupts the main thread in two stages: an error in blocking collectives first, so that clean-up code runs; then,
 * if the main thread has not answered after the grace period, termination, which skips `finally`.
 */
export function interruptInStages(steps: StagedInterrupt): void {
  steps.notify();
  const check = (attempt: number): void => {
    if (steps.answered() || attempt > ATTEMPTS) return;
    steps.guardian.terminate();
    steps.notify();
    setTimeout(check, GRACE_MS * 2 ** Math.min(attempt, DOUBLINGS), attempt + 1);
  };
  setTimeout(check, steps.graceMs ?? GRACE_MS, 1);
}
