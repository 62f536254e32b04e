import { setTimeout as delay } from 'node:timers/promises';
import type { Warn } from './warn';

/** The part of a zeromq socket that receives messages. */
export interface ReceivingSocket {
  readonly closed: boolean;
  receive(): Promise<Buffer[]>;
}

type Frame = Buffer | Uint8Array | string;

/** The part of a zeromq socket that sends messages, one at a time. */
export interface SendingSocket {
  readonly closed: boolean;
  send(message: Frame | Frame[]): Promise<void>;
}

/** Time after which a failed socket is tried again. */
const RETRY_MS = 100;

/**
 * Calls `handle` with every message of a socket until the socket is closed. The promise never rejects: if `handle` throws or
 * the socket fails, `warn` is called, and the loop waits for the next message.
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
    // zeromq throws EAGAIN if a message that it announced is malformed; any process can send such a message.
    if (socket.closed || isAgain(error)) return undefined;
    warn(`the socket ${name} failed to receive; it will be tried again: ${textOf(error)}`);
    await delay(RETRY_MS);
    return undefined;
  }
}

/** Sends one message after another. */
export interface Sender {
  /** Queues a message; messages are sent in order. The caller must not change the message's bytes afterwards. */
  send(message: Frame | Frame[]): void;
  /** Resolves when all queued messages are sent. */
  drained(): Promise<void>;
}

/** Returns a queue for a socket that sends one message at a time. Messages for a closed socket are dropped. */
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
