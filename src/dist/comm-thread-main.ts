// The comm thread of a rank on the shared memory plane.
import { workerData } from 'node:worker_threads';
import { openThreadCpuClock } from '../core/thread-cpu';
import type { CommThreadInput } from '../transport/comm-client';
import { CommLoop } from '../transport/comm-loop';
import { ControlBlock } from '../transport/control-block';
import { LinkClock } from '../transport/link-clock';
import { loadNative } from '../transport/native';
import type { SharedMemorySetup } from '../transport/shared-memory-plane';
import { TicketBoard } from '../transport/tickets';
import { StatusWriter } from './status-board';

// The main thread's CommClient makes workerData, and joinWorld adds the status board.
const { port, tickets, setup } = workerData as CommThreadInput<SharedMemorySetup>;
const status = new StatusWriter(setup.extra as SharedArrayBuffer, 'comm');
const tools = {
  native: loadNative(),
  control: new ControlBlock(setup.controlBuffer),
  kernelModule: setup.kernelModule,
  cpu: openThreadCpuClock(),
  link: setup.link === undefined ? undefined : new LinkClock(setup.link),
};
new CommLoop(port, new TicketBoard(tickets), tools, {
  began: (header) => status.enter(header),
  ended: () => status.leave(),
}).run();
