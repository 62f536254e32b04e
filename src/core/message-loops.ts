import { setTimeout as delay } from 'node:timers/promises';
import type { Warn } from './warn';

/** A socket that gives messages, as zeromq's do. */
export interface ReceivingSocket {
  readonly closed: boolean;
  receive(): Promise<Buffer[]>;
}

type Frame = Buffer | Uint8Array | string;

/** A socket that takes messages, one at a time, as zeromq's do. */
export interface SendingSocket {
  readonly closed: boolean;
  send(message: Frame | Frame[]): Promise<void>;
}

/** A socket that fails is asked again after this time. */
const RETRY_MS = 100;

/**
 * Gives every message of a socket to `handle`, until the socket is closed. Never rejects: a message that `handle` cannot take
 * and a socket that fails are told to `warn`, and the next message is waited for.
 */
export async function receiveAll(
  name: string,
  socket: ReceivingSocket,
  handle: (message: Buffer[]) => void,
  warn: Warn,
): Promise<void> {
  while (!socket.closed) {
    const message = await receive(name, socket, warn);
    if (message === undefined) continue;
    try {
      handle(message);
    } catch (error) {
      warn(`a message on ${name} was ignored: ${textOf(error)}`);
    }
  }
}

async function receive(name: string, socket: ReceivingSocket, warn: Warn): Promise<Buffer[] | undefined> {
  try {
    return await socket.receive();
  } catch (error) {
    // zeromq says EAGAIN where it has announced a message and then found it malformed: anybody can send such a one.
    if (socket.closed || isAgain(error)) return undefined;
    warn(`the socket ${name} failed to receive and is asked again: ${textOf(error)}`);
    await delay(RETRY_MS);
    return undefined;
  }
}

/** Sends one message after another. */
export interface Sender {
  /** Queues a message; order is kept. Its bytes must not change afterwards. */
  send(message: Frame | Frame[]): void;
  /** Resolves when all that was queued is sent. */
  drained(): Promise<void>;
}

/** A queue before a socket that takes one message at a time. What a closed socket cannot send is dropped. */
export function createSender(name: string, socket: SendingSocket, warn: Warn): Sender {
  let last: Promise<void> = Promise.resolve();
  return {
    send: (message) => {
      last = last
        .then(() => (socket.closed ? undefined : socket.send(message)))
        .catch((error: unknown) => {
          if (!socket.closed) warn(`the socket ${name} failed to send: ${textOf(error)}`);
        });
    },
    drained: () => last,
  };
}

function isAgain(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'EAGAIN';
}

function textOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
