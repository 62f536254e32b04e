import { timingSafeEqual } from 'node:crypto';
import { Pull, Push } from 'zeromq';
import { createSender, receiveAll, type Sender, ShardlabError, type Warn } from '../../core';

/** A received message: the sender's fingerprint and data. */
export interface Letter {
  readonly record: Uint8Array;
  readonly payload: Uint8Array;
}

interface Waiter {
  readonly epoch: number;
  readonly resolve: (letter: Letter) => void;
  readonly reject: (error: unknown) => void;
}

export interface MailboxOptions {
  readonly rank: number;
  /** The address of each rank; this rank binds its own address. */
  readonly addresses: readonly string[];
  /** The job's secret. Letters without the secret are ignored, because any program can write to a port of this machine. */
  readonly token: string;
  /** Takes a warning: about an error after which the socket still works, or about a message that is ignored. */
  readonly warn: Warn;
}

/** Sends and receives letters between ranks over zeromq. Letters may arrive in any order; `receive` finds a letter by its key. */
export class Mailbox {
  readonly #options: MailboxOptions;
  readonly #token: Buffer;
  readonly #pull: Pull;
  readonly #routes = new Map<number, { readonly push: Push; readonly sender: Sender }>();
  readonly #letters = new Map<string, Letter>();
  readonly #waiters = new Map<string, Waiter>();
  /** The newest epoch that was given up: this rank drops letters of this epoch and of earlier epochs. */
  #givenUp = 0;

  private constructor(options: MailboxOptions, pull: Pull) {
    this.#options = options;
    this.#token = Buffer.from(options.token);
    this.#pull = pull;
  }

  /** Opens the rank's mailbox at its own address. Throws: TRANSPORT if the system refuses the address. */
  static async open(options: MailboxOptions): Promise<Mailbox> {
    const { rank, addresses, warn } = options;
    const own = addresses[rank] ?? '';
    const pull = new Pull({ receiveHighWaterMark: 0, linger: 0 });
    try {
      await pull.bind(own);
    } catch (cause) {
      throw new ShardlabError('TRANSPORT', `rank ${rank} cannot bind ${own}: ${String(cause)}`, { cause });
    }
    const mailbox = new Mailbox(options, pull);
    // The loop that receives letters ends when the socket is closed.
    void receiveAll('letters', pull, (frames) => mailbox.#take(frames), warn);
    return mailbox;
  }

  /** Sends a letter to a global rank. The letter's bytes must not change afterwards. */
  send(to: number, key: string, letter: Letter): void {
    // If the send fails, the peer never answers, and the launcher ends the wait for the peer.
    this.#senderTo(to).send([this.#token, key, letter.record, letter.payload]);
  }

  /** Resolves to the letter with this key. Rejects when `giveUp` is called for the epoch. */
  receive(key: string, epoch: number): Promise<Letter> {
    const letter = this.#letters.get(key);
    if (letter !== undefined) {
      this.#letters.delete(key);
      return Promise.resolve(letter);
    }
    return new Promise((resolve, reject) => this.#waiters.set(key, { epoch, resolve, reject }));
  }

  /** Makes every wait of the epoch fail, and drops the letters of this and earlier epochs. */
  giveUp(epoch: number, error: () => unknown): void {
    this.#givenUp = Math.max(this.#givenUp, epoch);
    for (const [key, waiter] of this.#waiters) {
      if (waiter.epoch !== epoch) continue;
      this.#waiters.delete(key);
      waiter.reject(error());
    }
    for (const key of this.#letters.keys()) if (epochOf(key) <= epoch) this.#letters.delete(key);
  }

  /** Closes the sockets after all letters are sent. */
  async close(): Promise<void> {
    const routes = [...this.#routes.values()];
    await Promise.all(routes.map(({ sender }) => sender.drained()));
    for (const { push } of routes) push.close();
    this.#pull.close();
  }

  #senderTo(rank: number): Sender {
    const known = this.#routes.get(rank);
    if (known !== undefined) return known.sender;
    const { addresses, warn } = this.#options;
    const push = new Push({ sendHighWaterMark: 0, linger: 1000, reconnectInterval: 20 });
    push.connect(addresses[rank] ?? '');
    const sender = createSender(`to rank ${rank}`, push, warn);
    this.#routes.set(rank, { push, sender });
    return sender;
  }

  /** Accepts a letter with the job's secret; ignores other letters. */
  #take([token, key, record, payload]: readonly Buffer[]): void {
    if (key === undefined || record === undefined || payload === undefined) return;
    if (token?.length !== this.#token.length || !timingSafeEqual(token, this.#token)) return;
    const text = key.toString();
    const waiter = this.#waiters.get(text);
    this.#waiters.delete(text);
    if (waiter !== undefined) waiter.resolve({ record, payload });
    else if (epochOf(text) > this.#givenUp) this.#letters.set(text, { record, payload });
  }
}

/** Returns the epoch of a letter's key; a key begins with its epoch and a vertical bar. */
function epochOf(key: string): number {
  return Number.parseInt(key, 10);
}
