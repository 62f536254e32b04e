import { setTimeout as delay } from 'node:timers/promises';
import { Router, type SocketOptions, XPublisher } from 'zeromq';
import { createSender, receiveAll, ShardlabError, type Warn } from '../../src/core';
import { type Connection, JUPYTER_CHANNELS, type JupyterChannel } from './connection';
import type { Message, Outgoing, Wire } from './wire';

/**
 * The kernel waits this time before it exits: zeromq's thread then writes the queued messages, and an exit would stop the thread.
 */
const FLUSH_MS = 50;

/** Largest frame of a request, in bytes: the longest string of V8. A peer that sends a larger frame is disconnected. */
const LARGEST_REQUEST = 2 ** 29;
/** Largest heartbeat or subscription, in bytes. */
const LARGEST_NOTE = 2 ** 16;

/** Channels of requests and replies. */
export type RequestChannel = 'shell' | 'control' | 'stdin';

/** The kernel's bound sockets. Any process of the machine may write to them, so no message ends a receiving loop. */
export interface Sockets {
  /** Queues a message; preserves the order within a channel. */
  send(channel: RequestChannel | 'iopub', message: Outgoing): void;
  /** Calls `handle` for every valid message until the sockets are closed. */
  listen(channel: RequestChannel, handle: (message: Message) => void): void;
  /** Closes the sockets after all queued messages are sent, and then resolves. */
  close(): Promise<void>;
}

/** Binds all sockets; `warn` is called for ignored messages. Throws: TRANSPORT if an address is taken. */
export async function bindSockets(connection: Connection, wire: Wire, warn: Warn): Promise<Sockets> {
  const sockets = createSockets(connection);
  const bind = async (channel: JupyterChannel): Promise<void> => {
    const endpoint = connection.endpoints[channel];
    try {
      await sockets[channel].bind(endpoint);
    } catch (cause) {
      throw new ShardlabError('TRANSPORT', `cannot bind ${channel} to ${endpoint}: ${String(cause)}`, {
        cause,
      });
    }
  };
  await Promise.all(JUPYTER_CHANNELS.map(bind));
  const senders = {
    shell: createSender('shell', sockets.shell, warn),
    control: createSender('control', sockets.control, warn),
    stdin: createSender('stdin', sockets.stdin, warn),
    iopub: createSender('iopub', sockets.iopub, warn),
    hb: createSender('hb', sockets.hb, warn),
  };
  const send: Sockets['send'] = (channel, message) => senders[channel].send(wire.encode(message));
  // The loops end when their sockets are closed.
  void receiveAll('hb', sockets.hb, (frames) => senders.hb.send(frames), warn);
  void receiveAll('iopub', sockets.iopub, ([frame]) => welcome(frame, send), warn);
  return {
    send,
    listen: (channel, handle) =>
      void receiveAll(channel, sockets[channel], (frames) => handle(wire.decode(frames)), warn),
    close: async () => {
      await Promise.all(Object.values(senders).map((sender) => sender.drained()));
      await delay(FLUSH_MS);
      for (const socket of Object.values(sockets)) socket.close();
    },
  };
}

function createSockets({ curve }: Connection) {
  const security: SocketOptions<Router> =
    curve === undefined
      ? {}
      : { curveServer: true, curvePublicKey: curve.publicKey, curveSecretKey: curve.secretKey };
  const requests = { ...security, linger: 1000, maxMessageSize: LARGEST_REQUEST };
  const notes = { ...security, maxMessageSize: LARGEST_NOTE };
  return {
    shell: new Router(requests),
    control: new Router(requests),
    stdin: new Router(requests),
    // Without a high-water mark, zeromq drops no print of a cell.
    iopub: new XPublisher({ ...notes, linger: 1000, sendHighWaterMark: 0, verbosity: 'allSubs' }),
    // A ROUTER can echo any message, as ipykernel's heartbeat does; a REP would refuse messages that are not requests.
    hb: new Router({ ...notes, linger: 0 }),
  };
}

/** Sends a subscriber the message that its subscription is active. Source: Jupyter protocol 5.4, iopub_welcome */
function welcome(frame: Buffer | undefined, send: Sockets['send']): void {
  if (frame?.[0] !== 1) return;
  const topic = frame.subarray(1);
  send('iopub', {
    type: 'iopub_welcome',
    content: { subscription: topic.toString() },
    identities: [topic],
  });
}
