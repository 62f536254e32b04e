import { Session } from 'node:inspector';
import { readIfThere, readProcessStat } from '../core';
import { DebugAgent } from './debug-agent';
import { isUnbroken, numUnbrokenEnded } from './unbroken';

/** Ends the main thread's code, from another thread. */
export type Guardian = ReturnType<typeof attachGuardian>;

/**
 * Attaches to the main thread's inspector. Call this function in a worker, before the main thread runs code that may block,
 * because the main thread must answer once. The guardian does not terminate the work that `unbroken` marks.
 */
export function attachGuardian(unbroken?: Int32Array) {
  const session = new Session();
  session.connectToMainThread();
  let isAsked = false;
  return {
    /** Stops the main thread in its cells, for a debugger. */
    debug: new DebugAgent(session),
    /**
     * Ends the main thread's running JavaScript: a loop or an Atomics.wait, before or after an await. Has no effect while the
     * main thread waits for the system or is in unbroken work; see [Note: no termination in a system call].
     */
    terminate(): void {
      const isSpared = unbroken !== undefined && isUnbroken(unbroken);
      if (!isSpared && activity() !== 'system') session.post('Runtime.terminateExecution');
    },
    /**
     * Evaluates an expression in the main thread, also in the middle of a loop, and returns its value; undefined if the thread has not
     * answered within `limitMs`, as it waits for the system or is in native code, or has not answered the call before.
     */
    evaluate: (expression: string, limitMs: number): Promise<unknown> =>
      new Promise((resolve) => {
        if (isAsked) return resolve(undefined);
        isAsked = true;
        const timer = setTimeout(resolve, limitMs);
        session.post('Runtime.evaluate', { expression, returnByValue: true }, (_, answer) => {
          isAsked = false;
          clearTimeout(timer);
          resolve(answer?.result.value);
        });
      }),
    /** Measures from now on how long the main thread is stuck. */
    measureStuck: () => new StuckTime(unbroken),
    close: (): void => session.disconnect(),
  };
}

/**
 * [Note: stuck time] On a busy machine, a main thread that would answer an interrupt at once may wait long for a core. So the
 * time without an answer counts only if the main thread has run for USED_MS of this time, or was in an Atomics.wait. The time
 * starts again when unbroken work ends, and does not count while the main thread waits for the system.
 */
class StuckTime {
  readonly #unbroken: Int32Array | undefined;
  #passedMs = 0;
  #usedMs = 0;
  #last = look();
  #numEnded: number;

  constructor(unbroken: Int32Array | undefined) {
    this.#unbroken = unbroken;
    this.#numEnded = this.#countEnded();
  }

  /** Returns the stuck time so far in ms; call it often. */
  read(): number {
    const [last, here] = [this.#last, look()];
    this.#last = here;
    if (here.activity !== 'system') {
      this.#passedMs += here.at - last.at;
      this.#usedMs += usedBetween(last, here);
    }
    const numEnded = this.#countEnded();
    const isSpared = this.#unbroken !== undefined && isUnbroken(this.#unbroken);
    if (isSpared || numEnded !== this.#numEnded) this.restart();
    this.#numEnded = numEnded;
    return this.#usedMs < USED_MS ? 0 : this.#passedMs;
  }

  restart(): void {
    this.#passedMs = 0;
    this.#usedMs = 0;
  }

  #countEnded(): number {
    return this.#unbroken === undefined ? 0 : numUnbrokenEnded(this.#unbroken);
  }
}

/** A main thread that has run this long without an answer will not answer soon, even if it has waited for a core before. */
const USED_MS = 40;

/** The main thread at one moment. */
type Look = ReturnType<typeof look>;

function look() {
  const used = readIfThere(`/proc/self/task/${process.pid}/schedstat`)?.split(' ')[0];
  /** The processor time that the main thread has used; undefined if the system does not report this time. */
  const cpuMs = used === undefined ? undefined : Number(used) / 1e6;
  return { activity: activity(), cpuMs, at: performance.now() };
}

/** Returns, in ms, how long the main thread ran or was in an Atomics.wait between two looks. */
function usedBetween(last: Look, here: Look): number {
  const isWaiting = here.activity === 'waits' && last.activity === 'waits';
  if (isWaiting || here.cpuMs === undefined) return here.at - last.at;
  return here.cpuMs - (last.cpuMs ?? 0);
}

/**
 * [Note: no termination in a system call] A termination stays pending until JavaScript runs again. Between a blocking call
 * (spawnSync, a read) and that moment, Node's own code runs. This code treats a failure of V8 as a defect of Node and aborts
 * the process, and all variables are lost. So the guardian does not terminate a main thread that waits for the system.
 * Atomics.wait waits in a futex, and may be terminated.
 */
function activity(): 'computes' | 'waits' | 'system' {
  const place = readIfThere(`/proc/self/task/${process.pid}/wchan`) ?? '';
  if (place !== '' && place !== '0') return place.includes('futex') ? 'waits' : 'system';
  return readProcessStat(process.pid)?.state === 'S' ? 'waits' : 'computes';
}

export interface StagedInterrupt {
  /** Notifies the main thread, which ends its cell unless code blocks it. The call is repeated until the thread has answered. */
  readonly notify: () => void;
  /**
   * Whether the main thread has answered. The main thread answers after it has handled the interrupt, so that a termination
   * cannot stop the handling.
   */
  readonly answered: () => boolean;
  readonly guardian: Pick<Guardian, 'terminate' | 'measureStuck'>;
  /** Blocking code that has not ended with an error after this stuck time (in ms) is terminated. Default 50. */
  readonly graceMs?: number;
}

const GRACE_MS = 50;
/** Time between two looks at the main thread. */
const LOOK_MS = 10;
/** The largest number of terminations; more than one is needed if the main thread blocks again in the next callback. */
const ATTEMPTS = 20;
/** Each wait for an answer is twice as long as the wait before; after this number of doublings, waits stay equal. */
const DOUBLINGS = 4;

/**
 * Interrupts the main thread in two stages. First, blocking collectives throw an error, so that clean-up code runs. If the main
 * thread has not answered within the grace period of [Note: stuck time], its code is then terminated, which skips `finally`.
 */
export function interruptInStages({ notify, answered, guardian, graceMs = GRACE_MS }: StagedInterrupt): void {
  notify();
  const stuck = guardian.measureStuck();
  let attempt = 1;
  let limitMs = graceMs;
  const check = (): void => {
    if (answered() || attempt > ATTEMPTS) return;
    if (stuck.read() >= limitMs) {
      guardian.terminate();
      notify();
      limitMs = GRACE_MS * 2 ** Math.min(attempt++, DOUBLINGS);
      stuck.restart();
    }
    setTimeout(check, LOOK_MS);
  };
  setTimeout(check, LOOK_MS);
}
