// The first script of a comm thread, which loads the plane's script. While the main thread blocks in a wait for the comm
// thread, it gets no events. So shared memory reports an error of the plane's script, even an error while the script loads.
import '../../core/code-cache/save-memory-here';
import { workerData } from 'node:worker_threads';
import { errorJson } from '../../core';
import type { CommThreadInput } from './comm-client';
import { type CommFailure, TicketBoard, WHOLE_THREAD } from './tickets';

// The main thread's CommClient makes workerData.
const { script, port, tickets } = workerData as CommThreadInput<unknown>;

process.on('uncaughtException', (thrown: unknown) => {
  const failure: CommFailure = { ticket: WHOLE_THREAD, error: errorJson(thrown, 'TRANSPORT') };
  port.postMessage(failure);
  new TicketBoard(tickets).abandon();
  process.exit(1);
});
require(script);
