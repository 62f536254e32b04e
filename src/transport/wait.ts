import { now, type Seconds } from '../core/units';
import { abortError, type ControlBlock } from './control-block';
import { type GroupIdentity, speaker } from './mismatch';

/** A condition that another process or thread will fulfil. */
export interface Wait {
  ready(): boolean;
  /** Sleeps until the condition may be true, at most `milliseconds`. */
  sleep(milliseconds: number): void;
  /** Called after a long wait. Throws if the condition can never become true, because other ranks do something else. */
  diagnose(): void;
}

/**
 * A collective as a sequence of steps between waits. The same steps run on the main thread, which blocks, and on the
 * comm thread, which alternates between collectives.
 */
export type Steps<T = void> = Generator<Wait, T, void>;

/** Longest sleep between two checks of the control block. */
export const PATIENCE_MS = 50;

/** Checks whether a collective of an epoch may continue. */
export interface Guard {
  /** Throws: RANK_DIED, INTERRUPTED, ABORTED, COLLECTIVE_MISSING. */
  check(): void;
}

export function guardOf(
  control: ControlBlock,
  identity: GroupIdentity,
  epoch: number,
  what: () => string,
): Guard {
  return {
    check() {
      const { reason } = control;
      if (reason === undefined && control.epoch === epoch) return;
      throw abortError(
        reason ?? { code: 'ABORTED', text: 'the job was reset meanwhile' },
        speaker(identity),
        identity.ranks[identity.rank] ?? identity.rank,
        what(),
      );
    },
  };
}

/** Runs steps to their end on this thread: spins a little at each wait, then sleeps. */
export function runBlocking<T>(steps: Steps<T>, spins: number, guard: Guard): T {
  for (;;) {
    const step = steps.next();
    if (step.done === true) return step.value;
    awaitStep(step.value, spins, guard);
  }
}

function awaitStep(wait: Wait, spins: number, guard: Guard): void {
  for (let i = 0; i < spins; i++) if (wait.ready()) return;
  let lastLook: Seconds = now();
  while (!wait.ready()) {
    wait.sleep(PATIENCE_MS);
    guard.check();
    if (now() - lastLook < PATIENCE_MS / 2e3) continue;
    wait.diagnose();
    lastLook = now();
  }
}
