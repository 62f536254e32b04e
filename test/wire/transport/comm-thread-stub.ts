// A comm thread for tests that ends while it loads, or at its first message.
import { workerData } from 'node:worker_threads';
import { ShardlabError } from '../../../src/core/errors';
import type { CommThreadInput } from '../../../src/wire/transport/comm-client';

// The test makes the setup.
const { port, setup } = workerData as CommThreadInput<'while it loads' | 'at its first message'>;
const end = (): never => {
  throw new ShardlabError('ENGINE', 'the kernels are missing');
};
if (setup === 'while it loads') end();
port.on('message', end);
