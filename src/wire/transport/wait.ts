import { now, type Seconds } from '../../core';
import type { CallHeader } from './call';
import { abortError, type ControlBlock } from './control-block';
import { type GroupIdentity, speaker } from './mismatch';

/** A condition that another process or thread will fulfil. */
export interface Wait {
  ready(): boolean;
  /** Sleeps until the condition may be true, at most `milliseconds`. */
  sleep(milliseconds: number): void;
  /** Is called after a long wait. Throws if the condition can never become true, because other ranks make other calls. */
  diagnose(): void;
}

/**
 * A collective as a sequence of steps between waits. The main thread runs the steps of one collective to their
 * end; the comm thread alternates between the steps of several collectives.
 */
export type Steps<T = void> = Generator<Wait, T, void>;

/** Longest sleep between two checks of the control block, in milliseconds. */
export const PATIENCE_MS = 50;

/** Checks whether a collective may continue. Throws: RANK_DIED, INTERRUPTED, ABORTED, COLLECTIVE_MISSING. */
export function checkControl(
  control: ControlBlock,
  identity: GroupIdentity,
  { op, number, group, epoch }: CallHeader,
): void {
  const { reason } = control;
  if (reason === undefined && control.epoch === epoch) return;
  throw abortError(
    reason ?? { code: 'ABORTED', text: 'the job was reset meanwhile' },
    speaker(identity),
    identity.ranks[identity.rank] ?? identity.rank,
    `${op} number ${number} of group ${group}`,
  );
}

/**
 * Runs steps to their end on this thread. At each wait, the thread spins at most `spins` times; then it sleeps, and calls
 * `check` after each sleep.
 */
export function runBlocking<T>(steps: Steps<T>, spins: number, check: () => void): T {
  for (;;) {
    const step = steps.next();
    if (step.done === true) return step.value;
    awaitStep(step.value, spins, check);
  }
}

function awaitStep(wait: Wait, spins: number, check: () => void): void {
  for (let i = 0; i < spins; i++) if (wait.ready()) return;
  let lastLook: Seconds = now();
  while (!wait.ready()) {
    wait.sleep(PATIENCE_MS);
    if (wait.ready()) return;
    checkWaiting(wait, check);
    if (now() - lastLook < PATIENCE_MS / 2e3) continue;
    wait.diagnose();
    lastLook = now();
  }
}

/**
 * Runs `check`. If `check` throws because another rank failed, and that rank failed because its call and this call differ, throws
 * the error that shows both calls.
 */
export function checkWaiting(wait: Wait | undefined, check: () => void): void {
  try {
    check();
  } catch (error) {
    wait?.diagnose();
    throw error;
  }
}
