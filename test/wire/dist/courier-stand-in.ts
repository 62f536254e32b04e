// The courier of a test rank: listens to the parent while the main thread is blocked.
import { createReadStream } from 'node:fs';
import { createInterface } from 'node:readline';
import { isMainThread, Worker, workerData } from 'node:worker_threads';
import { type AbortReason, ControlBlock } from '../../../src/wire/transport/control-block';

const PARENT_PIPE = 4;

export type CourierOrder = { readonly abort: AbortReason } | { readonly reset: true };

/** Starts the thread; it ends the process when the parent ends. */
export function startCourier(control: SharedArrayBuffer): void {
  new Worker(__filename, { workerData: control }).unref();
}

if (!isMainThread && workerData instanceof SharedArrayBuffer) {
  const block = new ControlBlock(workerData);
  const lines = createInterface({ input: createReadStream('', { fd: PARENT_PIPE }) });
  lines.on('line', (line) => {
    // The parent writes nothing else into this pipe.
    const order = JSON.parse(line) as CourierOrder;
    if ('abort' in order) block.abort(order.abort);
    else block.reset();
  });
  lines.on('close', () => process.kill(process.pid, 'SIGKILL'));
}
