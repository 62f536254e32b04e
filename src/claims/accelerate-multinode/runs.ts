import { once } from 'node:events';
import { connect, createServer } from 'node:net';
import type { Experiment } from '../entry';

/** Connects twice to a port of this machine: while a process listens on the port, and after the process has closed the port. */
export const port: Experiment = {
  name: 'A port that answers and one that does not',
  async run() {
    const server = createServer((socket) => socket.end());
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const address = server.address();
    const listening = typeof address === 'object' && address !== null ? address.port : 0;
    const answered = await answers(listening);
    server.close();
    await once(server, 'close');
    return { listening: Number(answered), closed: Number(await answers(listening)) };
  },
};

/** Whether a process accepts a connection at a port of this machine. */
async function answers(number: number): Promise<boolean> {
  const socket = connect(number, '127.0.0.1');
  try {
    await once(socket, 'connect');
    return true;
  } catch {
    return false;
  } finally {
    socket.destroy();
  }
}
