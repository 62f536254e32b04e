import { randomBytes } from 'node:crypto';
import { deserialize, serialize } from 'node:v8';
import { Router } from 'zeromq';
import { unbroken } from '../../cell';
import { createSender, receiveAll } from '../../core';
import { warnOnStderr } from './folded-lines';
import { socketEndpoint } from './folder';
import type { ControlAddress, FromRank, ToRank } from './messages';

/** The launcher's end of the links to all ranks. */
export interface ControlServer {
  send(rank: number, message: ToRank): void;
  close(): void;
}

/** The launcher's end of the links to all ranks of this program. */
export interface NodeControlServer extends ControlServer {
  readonly address: ControlAddress;
}

/**
 * Listens in the job's folder, or on loopback if socket paths are impossible. A peer counts as a rank once it has
 * sent the job's token. `receive` gets every message of a rank in the order in which the rank sent it.
 */
export async function openControlServer(
  folder: string,
  receive: (rank: number, message: FromRank) => void,
): Promise<NodeControlServer> {
  // The queues have no limit: if a full queue dropped a message, a call would never end.
  const router = new Router({ sendHighWaterMark: 0, receiveHighWaterMark: 0, linger: 0 });
  const token = randomBytes(16).toString('hex');
  await router.bind(socketEndpoint(folder, 'control') ?? 'tcp://127.0.0.1:*');
  const peers = new Map<number, Buffer>();
  const hear = createListener(token, peers, receive);
  // The loop ends when the socket is closed.
  void receiveAll('control', router, (frames) => unbroken(() => hear(frames)), warnOnStderr);
  const socket = {
    get closed() {
      return router.closed;
    },
    send: (message: Buffer[]) => unbroken(() => router.send(message)),
  };
  const sender = createSender('control', socket, warnOnStderr);
  return {
    address: { endpoint: router.lastEndpoint ?? '', token },
    send(rank: number, message: ToRank): void {
      const peer = peers.get(rank);
      if (peer !== undefined && !router.closed) sender.send([peer, serialize(message)]);
    },
    close: (): void => router.close(),
  };
}

/** Handles messages of the control socket: a greeting, or a message of a peer that has sent its greeting. */
function createListener(
  token: string,
  peers: Map<number, Buffer>,
  receive: (rank: number, message: FromRank) => void,
): (frames: readonly Buffer[]) => void {
  const rankOf = new Map<string, number>();
  return ([peer, frame]) => {
    if (peer === undefined || frame === undefined) return;
    const key = peer.toString('hex');
    const rank = rankOf.get(key);
    if (rank === undefined) {
      const hello = readHello(frame, token);
      if (hello === undefined) return;
      rankOf.set(key, hello);
      peers.set(hello, peer);
    } else {
      // Only a peer that knew the token gets here, so our courier wrote this message.
      receive(rank, deserialize(frame) as FromRank);
    }
  };
}

/** Returns the rank of a peer that sent the token. Any program may send bytes to loopback, and JSON is safe to parse. */
function readHello(frame: Buffer, token: string): number | undefined {
  try {
    const hello: unknown = JSON.parse(frame.toString('utf8'));
    if (typeof hello !== 'object' || hello === null) return undefined;
    const { rank, token: said } = hello as { rank?: unknown; token?: unknown };
    return typeof rank === 'number' && said === token ? rank : undefined;
  } catch {
    return undefined;
  }
}
