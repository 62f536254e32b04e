import '../../src/core/code-cache/save-memory-here';
import { Socket } from 'node:net';
import { parentPort, workerData } from 'node:worker_threads';
import { attachGuardian, type DebugNews, type DebugOrder, interruptInStages } from '../../src/cell';
import { DEBUG_FD, openDebugLink } from './debug-link';
import { INTERRUPT_BYTE, LIFELINE_FD, PATIENT_INTERRUPT_BYTE } from './protocol';

/** After this time, the guardian terminates JavaScript that still waits for interrupted child processes. */
const CHILDREN_MS = 300;

/** Data of this worker, which receives the front's messages even while the executor's main thread is busy. */
interface GuardianData {
  /** Word 0 is the number of the last interrupt request that the main thread has noticed. */
  readonly heard: Int32Array;
  /** Words that say whether the main thread runs work now that must not be terminated ([Note: unbroken work]). */
  readonly unbroken: Int32Array;
}

// The executor's startGuardian makes workerData.
const { heard, unbroken } = workerData as GuardianData;
const guardian = attachGuardian(unbroken);
const lifeline = new Socket({ fd: LIFELINE_FD });
let requests = 0;

lifeline.on('data', (bytes) => {
  if (bytes.includes(PATIENT_INTERRUPT_BYTE)) interrupt(CHILDREN_MS);
  else if (bytes.includes(INTERRUPT_BYTE)) interrupt();
});
lifeline.on('error', endProcessGroup);
lifeline.on('close', endProcessGroup);
const { debug } = guardian;
const debugLink = new Socket({ fd: DEBUG_FD });
debug.report(openDebugLink<DebugNews, DebugOrder>(debugLink, (order) => debug.follow(order)));
parentPort?.postMessage('ready');

function interrupt(graceMs?: number): void {
  const request = ++requests;
  debug.abandon();
  interruptInStages({
    notify: () => parentPort?.postMessage(request),
    answered: () => Atomics.load(heard, 0) >= request,
    guardian,
    ...(graceMs !== undefined && { graceMs }),
  });
}

/**
 * Ends the executor and its child processes, because the front has ended. Ranks end when their own lifelines close.
 */
function endProcessGroup(): void {
  process.kill(-process.pid, 'SIGKILL');
}
