// The first script of a comm thread. The main thread may block in a wait for the comm thread and see no events. So any
// end of the working script, even while it loads, is reported through shared memory.
import { workerData } from 'node:worker_threads';
import { ShardlabError } from '../core/errors';
import type { CommThreadInput } from './comm-client';
import { type CommFailure, WHOLE_THREAD } from './comm-messages';
import { TicketBoard } from './tickets';

// The main thread's CommClient makes workerData.
const { script, port, tickets } = workerData as CommThreadInput<unknown>;

process.on('uncaughtException', (thrown: unknown) => {
  const error =
    thrown instanceof ShardlabError
      ? thrown.toJSON()
      : {
          code: 'TRANSPORT' as const,
          message: thrown instanceof Error ? (thrown.stack ?? thrown.message) : String(thrown),
        };
  port.postMessage({ ticket: WHOLE_THREAD, error } satisfies CommFailure);
  new TicketBoard(tickets).abandon();
  process.exit(1);
});
require(script);
