import { parentPort, workerData } from 'node:worker_threads';
import { attachGuardian, interruptInStages } from '../../src/cell/guardian';

// A worker for tests: when asked, interrupts the main thread in stages, `after` milliseconds later.
// The driver starts this worker with exactly this data.
const guardian = attachGuardian((workerData as { unbroken: Int32Array }).unbroken);
let asked = 0;
let answers: Int32Array;
parentPort?.on('message', (message: { answers?: Int32Array; after?: number }) => {
  if (message.answers !== undefined) answers = message.answers;
  else setTimeout(interrupt, message.after ?? 0);
});
parentPort?.postMessage('ready');

function interrupt(): void {
  const request = ++asked;
  interruptInStages({
    notify: () => parentPort?.postMessage(request),
    answered: () => Atomics.load(answers, 0) >= request,
    guardian,
  });
}
