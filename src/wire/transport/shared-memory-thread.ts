// The comm thread of a rank on the shared memory plane.
import { workerData } from 'node:worker_threads';
import { openThreadCpuClock } from '../../core';
import type { CommThreadInput } from './comm-client';
import { CommLoop } from './comm-loop';
import { ControlBlock } from './control-block';
import { Links } from './links';
import { loadNative } from './native';
import type { SharedMemorySetup } from './shared-memory-plane';
import { StatusWriter } from './status-board';
import { TicketBoard } from './tickets';

// The main thread's CommClient makes workerData.
const { port, tickets, setup } = workerData as CommThreadInput<SharedMemorySetup>;
const tools = {
  native: loadNative(),
  control: new ControlBlock(setup.controlBuffer),
  kernelModule: setup.kernelModule,
  cpu: openThreadCpuClock(),
  links: setup.links === undefined ? undefined : new Links(setup.links),
};
new CommLoop(port, new TicketBoard(tickets), tools, new StatusWriter(setup.statusBoard, 'comm')).run();
