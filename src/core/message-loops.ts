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

/** A failed socket is tried again after this time. */
const RETRY_MS = 100;

/**
 * Gives every message of a socket to `handle`, until the socket is closed. Never rejects: `warn` gets a report of a
 * message that `handle` refuses, or of a failed socket, and the loop waits for the next message.
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
    // zeromq throws EAGAIN when it has announced a message and then finds it malformed; anybody can send such a
    // message.
    if (socket.closed || isAgain(error)) return undefined;
    warn(`the socket ${name} failed to receive and is tried again: ${textOf(error)}`);
    await delay(RETRY_MS);
    return undefined;
  }
}

/** Sends one message after another. */
export interface Sender {
  /** Queues a message; preserves the order. The message's bytes must not change afterwards. */
  send(message: Frame | Frame[]): void;
  /** Resolves when all queued messages are sent. */
  drained(): Promise<void>;
}

/** A queue for a socket that takes one message at a time. Messages for a closed socket are dropped. */
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
