import { Pull, Push } from 'zeromq';
import { ShardlabError } from '../core/errors';

/** A message as it came: its sender's fingerprint and data. */
export interface Letter {
  readonly record: Uint8Array;
  readonly payload: Uint8Array;
}

interface Waiter {
  readonly epoch: number;
  readonly resolve: (letter: Letter) => void;
  readonly reject: (error: unknown) => void;
}

/** Letters between ranks over zeromq, found by key whatever order they come in. */
export class Mailbox {
  private readonly addresses: readonly string[];
  private readonly pull: Pull;
  private readonly pushes = new Map<number, Push>();
  private readonly tails = new Map<number, Promise<void>>();
  private readonly letters = new Map<string, Letter>();
  private readonly waiters = new Map<string, Waiter>();
  /** Letters of epochs up to this one are read by nobody any more. */
  private givenUp = 0;

  private constructor(addresses: readonly string[], pull: Pull) {
    this.addresses = addresses;
    this.pull = pull;
  }

  /** Binds the rank's own address. Throws: TRANSPORT where that is refused. */
  static async open(rank: number, addresses: readonly string[]): Promise<Mailbox> {
    const own = addresses[rank] ?? '';
    const pull = new Pull({ receiveHighWaterMark: 0, linger: 0 });
    try {
      await pull.bind(own);
    } catch (cause) {
      throw new ShardlabError('TRANSPORT', `rank ${rank} cannot bind ${own}: ${String(cause)}`, { cause });
    }
    const mailbox = new Mailbox(addresses, pull);
    // Ends when the socket closes; errors before that reach nobody else.
    void mailbox.receiveAll();
    return mailbox;
  }

  /** Sends to a global rank. The letter's bytes must not change afterwards. */
  send(to: number, key: string, letter: Letter): void {
    const push = this.pushTo(to);
    const previous = this.tails.get(to) ?? Promise.resolve();
    // A socket takes one send at a time; a failure shows as a peer that never answers, and ends by the launcher's word.
    const next = previous.then(() => push.send([key, letter.record, letter.payload])).catch(() => undefined);
    this.tails.set(to, next);
  }

  /** Waits for a letter. Rejects when the epoch is given up. */
  receive(key: string, epoch: number): Promise<Letter> {
    const letter = this.letters.get(key);
    if (letter !== undefined) {
      this.letters.delete(key);
      return Promise.resolve(letter);
    }
    return new Promise((resolve, reject) => this.waiters.set(key, { epoch, resolve, reject }));
  }

  /** Makes every wait of the epoch fail, and forgets letters that came for it. */
  giveUp(epoch: number, error: () => unknown): void {
    this.givenUp = Math.max(this.givenUp, epoch);
    for (const [key, waiter] of this.waiters) {
      if (waiter.epoch !== epoch) continue;
      this.waiters.delete(key);
      waiter.reject(error());
    }
    for (const key of this.letters.keys()) if (epochOf(key) <= epoch) this.letters.delete(key);
  }

  /** Closes the sockets once what was sent has gone out. */
  async close(): Promise<void> {
    await Promise.all(this.tails.values());
    for (const push of this.pushes.values()) push.close();
    this.pull.close();
  }

  private pushTo(rank: number): Push {
    const known = this.pushes.get(rank);
    if (known !== undefined) return known;
    const push = new Push({ sendHighWaterMark: 0, linger: 1000, reconnectInterval: 20 });
    push.connect(this.addresses[rank] ?? '');
    this.pushes.set(rank, push);
    return push;
  }

  private async receiveAll(): Promise<void> {
    for await (const [key, record, payload] of this.pull) {
      if (key === undefined || record === undefined || payload === undefined) continue;
      this.deliver(key.toString(), { record, payload });
    }
  }

  private deliver(key: string, letter: Letter): void {
    const waiter = this.waiters.get(key);
    if (waiter === undefined) {
      if (epochOf(key) > this.givenUp) this.letters.set(key, letter);
      return;
    }
    this.waiters.delete(key);
    waiter.resolve(letter);
  }
}

/** Keys begin with their epoch and a bar. */
function epochOf(key: string): number {
  return Number.parseInt(key, 10);
}
