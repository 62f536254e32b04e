import { once } from 'node:events';
import { join } from 'node:path';
import { Worker } from 'node:worker_threads';

/** Starts the guardian thread; `interrupted` is called on this thread when the user interrupts. */
export async function startGuardian(interrupted: () => void): Promise<void> {
  const heard = new Int32Array(new SharedArrayBuffer(4));
  const worker = new Worker(join(__dirname, 'guardian-thread.js'), { workerData: { heard } });
  await once(worker, 'message');
  worker.on('message', (request: number) => {
    // A repeated request: it was already noticed.
    if (request <= Atomics.load(heard, 0)) return;
    interrupted();
    Atomics.store(heard, 0, request);
  });
}
