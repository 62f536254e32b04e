import { setTimeout as delay } from 'node:timers/promises';
import { Reply, Router, type Writable, XPublisher } from 'zeromq';
import { ShardlabError } from '../../src/core/errors';
import { CHANNELS, type Channel, type Connection } from './connection';
import type { Message, Outgoing, Wire } from './wire';

/** A sent message is with zeromq's thread; it gets this long to write it, since a process that exits does not wait for it. */
const FLUSH_MS = 50;

/** Channels on which requests come and replies go. */
export type RequestChannel = 'shell' | 'control' | 'stdin';

/** The kernel's bound sockets. */
export interface Sockets {
  /** Queues a message; messages of a channel keep their order. */
  send(channel: RequestChannel | 'iopub', message: Outgoing): void;
  /** Calls back for every valid message, until the sockets are closed. */
  listen(channel: RequestChannel, handle: (message: Message) => void): void;
  /** Resolves when all that was queued is sent, then closes. */
  close(): Promise<void>;
}

/** Binds all sockets. Throws: TRANSPORT when an address is taken. */
export async function bindSockets(connection: Connection, wire: Wire): Promise<Sockets> {
  const { curve } = connection;
  const security =
    curve === undefined
      ? {}
      : { curveServer: true, curvePublicKey: curve.publicKey, curveSecretKey: curve.secretKey };
  const sockets = {
    shell: new Router({ ...security, linger: 1000 }),
    control: new Router({ ...security, linger: 1000 }),
    stdin: new Router({ ...security, linger: 1000 }),
    // Without a high-water mark nothing that a cell prints is dropped.
    iopub: new XPublisher({ ...security, linger: 1000, sendHighWaterMark: 0, verbosity: 'allSubs' }),
    hb: new Reply({ ...security, linger: 0 }),
  };
  await Promise.all(CHANNELS.map((channel) => bind(sockets[channel], channel, connection)));
  const senders = {
    shell: createSender(sockets.shell),
    control: createSender(sockets.control),
    stdin: createSender(sockets.stdin),
    iopub: createSender(sockets.iopub),
  };
  const send: Sockets['send'] = (channel, message) => senders[channel].send(wire.encode(message));
  void echo(sockets.hb);
  void welcome(sockets.iopub, send);
  return {
    send,
    listen: (channel, handle) => void receive(sockets[channel], wire, handle),
    close: async () => {
      await Promise.all(Object.values(senders).map((sender) => sender.drained()));
      await delay(FLUSH_MS);
      for (const socket of Object.values(sockets)) socket.close();
    },
  };
}

async function bind(
  socket: { bind(address: string): Promise<void> },
  channel: Channel,
  { endpoints }: Connection,
): Promise<void> {
  try {
    await socket.bind(endpoints[channel]);
  } catch (cause) {
    throw new ShardlabError(
      'TRANSPORT',
      `cannot bind ${channel} to ${endpoints[channel]}: ${String(cause)}`,
      {
        cause,
      },
    );
  }
}

type Frames = ReturnType<Wire['encode']>;

/** zeromq.js allows one send at a time on a socket: the others wait here. */
function createSender(socket: Writable): { send(frames: Frames): void; drained(): Promise<void> } {
  let last: Promise<void> = Promise.resolve();
  return {
    send: (frames) => {
      // A client that has gone is no reason to stop serving the others.
      last = last.then(() => socket.send(frames)).catch(() => {});
    },
    drained: () => last,
  };
}

async function receive(socket: Router, wire: Wire, handle: (message: Message) => void): Promise<void> {
  for await (const frames of socket) {
    const message = wire.decode(frames);
    if (message !== undefined) handle(message);
  }
}

async function echo(socket: Reply): Promise<void> {
  for await (const frames of socket) await socket.send(frames);
}

/** Tells each subscriber that its subscription counts from now on. Source: Jupyter protocol 5.4, iopub_welcome */
async function welcome(socket: XPublisher, send: Sockets['send']): Promise<void> {
  for await (const [frame] of socket) {
    if (frame?.[0] !== 1) continue;
    const topic = frame.subarray(1);
    send('iopub', {
      type: 'iopub_welcome',
      content: { subscription: topic.toString() },
      identities: [topic],
    });
  }
}
