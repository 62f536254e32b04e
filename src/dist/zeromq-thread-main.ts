// The comm thread of a rank on the zeromq plane.
import { workerData } from 'node:worker_threads';
import type { CommThreadInput } from '../transport/comm-client';
import { ControlBlock } from '../transport/control-block';
import { compileKernels } from '../transport/kernels/load';
import { TicketBoard } from '../transport/tickets';
import { runZeromqLoop } from '../transport/zeromq-loop';
import type { ZeromqSetup } from '../transport/zeromq-messages';
import { StatusWriter } from './status-board';

// The main thread's CommClient makes workerData, and joinWorld adds the status board.
const { port, tickets, setup } = workerData as CommThreadInput<ZeromqSetup>;
const status = new StatusWriter(setup.extra as SharedArrayBuffer, 'comm');
void runZeromqLoop({
  port,
  tickets: new TicketBoard(tickets),
  setup,
  control: new ControlBlock(setup.control),
  kernelModule: compileKernels(),
  watcher: { began: (header) => status.enter(header), ended: () => status.leave() },
  warn: (message) => void process.stderr.write(`warning: ${message}\n`),
});
