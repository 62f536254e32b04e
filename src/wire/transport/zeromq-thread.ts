// The comm thread of a rank on the zeromq plane.
import { workerData } from 'node:worker_threads';
import type { CommThreadInput } from './comm-client';
import { runZeromqLoop, type ZeromqSetup } from './zeromq-loop';

// The main thread's CommClient makes workerData.
void runZeromqLoop(workerData as CommThreadInput<ZeromqSetup>);
