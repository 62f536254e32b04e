import { join } from 'node:path';
import { Worker } from 'node:worker_threads';
import { MESSAGE_THREAD_LIMITS } from '../../core';
import type { CourierData, FromRank, ToCourier, ToMain } from './messages';
import { SHARED_WORDS } from './shared-words';

/** At its exit, the process waits at most this long for the courier to send its remaining messages. */
const CLOSE_MS = 1000;

/** A halted rank looks for an interrupt after this time. */
const HALT_MS = 20;

/** A rank that waits for a grant checks again after this time. */
const GRANT_MS = 5;

/** The main thread's handle of its courier. */
export type CourierHandle = ReturnType<typeof startCourier>;

/** Starts the courier thread of this process. At the process's exit, the courier gets time to send and close. */
export function startCourier(data: Omit<CourierData, 'shared'>) {
  const buffer = new SharedArrayBuffer(4 * SHARED_WORDS.length);
  const shared = new Int32Array(buffer);
  const workerData = { ...data, shared: buffer } satisfies CourierData;
  const worker = new Worker(join(__dirname, 'courier.js'), {
    workerData,
    resourceLimits: MESSAGE_THREAD_LIMITS,
  });
  const post = (message: ToCourier): void => worker.postMessage(message);
  const listeners = new Set<(message: ToMain) => void>();
  const attached = new Promise<void>((resolve) => {
    worker.on('message', (message: ToMain) => {
      if (message.type === 'attached') resolve();
      for (const listener of listeners) listener(message);
    });
  });
  // Without its courier, a rank cannot be reached or ended, so it ends itself.
  worker.on('error', (error) => {
    process.stderr.write(`courier: ${error.stack ?? error.message}\n`);
    process.exit(1);
  });
  // [Note: closing] zeromq aborts the process when a thread ends while it has an open socket.
  process.on('exit', () => {
    post({ type: 'close' });
    Atomics.wait(shared, SHARED_WORDS.closed, 0, CLOSE_MS);
  });
  return {
    /** Resolves when the courier can terminate the code that the main thread runs. */
    attached,
    send: (message: FromRank): void => post(message),
    /** Tells the courier which ranks belong to a group, so that the courier can report who waits for whom. */
    knowGroup: (name: string, ranks: readonly number[]): void => post({ type: 'group', name, ranks }),
    receive: (listener: (message: ToMain) => void) => listeners.add(listener),
    /** Reports that the main thread has ended a work. Call this method before the message with the outcome is sent. */
    ended: (id: number) => Atomics.store(shared, SHARED_WORDS.ended, id),
    /** Whether the running call may run step `index`; waits until the launcher has decided. */
    mayStep: (index: number): boolean => mayStep(shared, index),
    /** Whether walked work may pass point `index`; waits a while for the launcher's decision. */
    mayPass: (index: number): boolean => mayPass(shared, index),
    /** Whether work `id` must end. */
    isInterrupted: (id: number): boolean => Atomics.load(shared, SHARED_WORDS.interrupted) === id,
    /** Reports that the main thread has noticed the interrupt of a work. */
    heard: (id: number) => Atomics.store(shared, SHARED_WORDS.heard, id),
  };
}

function mayStep(shared: Int32Array, index: number): boolean {
  for (;;) {
    // `isFinal` is read first, because the courier writes it last.
    const isFinal = Atomics.load(shared, SHARED_WORDS.isFinal) === 1;
    const granted = Atomics.load(shared, SHARED_WORDS.granted);
    if (index < granted) return true;
    if (isFinal) return false;
    Atomics.wait(shared, SHARED_WORDS.granted, granted, GRANT_MS);
  }
}

function mayPass(shared: Int32Array, index: number): boolean {
  const passes = Atomics.load(shared, SHARED_WORDS.passes);
  if (index < passes) return true;
  Atomics.store(shared, SHARED_WORDS.halted, 1);
  Atomics.wait(shared, SHARED_WORDS.passes, passes, HALT_MS);
  Atomics.store(shared, SHARED_WORDS.halted, 0);
  return index < Atomics.load(shared, SHARED_WORDS.passes);
}
