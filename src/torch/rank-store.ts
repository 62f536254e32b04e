/** What a rank asks of the store. Values are bytes in base64. */
export interface StoreRequest {
  readonly id: number;
  readonly op: 'set' | 'await' | 'have' | 'add' | 'append' | 'exchange' | 'remove' | 'count' | 'forget';
  readonly keys: readonly string[];
  readonly values?: readonly string[];
  readonly number?: number;
}

/** The answer to a request: values, a number, or whether keys exist; null if there is nothing to say. */
export type StoreAnswer = readonly string[] | number | boolean | null;

interface Waiting {
  readonly rank: number;
  readonly request: StoreRequest;
  readonly answer: (answer: StoreAnswer) => void;
}

/**
 * The store by which the ranks of a job find each other when they make a group. [Note: store of Python ranks] torch's own
 * TCPStore listens on all interfaces and trusts everybody who connects. This store is in the launcher, and only a rank that
 * has proved the job's key on its control link can ask it.
 */
export class RankStore {
  readonly #values = new Map<string, string>();
  readonly #waiting = new Set<Waiting>();

  /** Performs a rank's request; `answer` gets the answer when there is one. */
  perform(rank: number, request: StoreRequest, answer: (answer: StoreAnswer) => void): void {
    if (request.op === 'await') {
      this.#waiting.add({ rank, request, answer });
      this.#answerWaiting();
      return;
    }
    answer(this.#done(request));
    this.#answerWaiting();
  }

  /** Drops the requests of a rank that has ended. */
  left(rank: number): void {
    for (const waiting of this.#waiting) if (waiting.rank === rank) this.#waiting.delete(waiting);
  }

  #done({ op, keys, values = [], number = 0 }: StoreRequest): StoreAnswer {
    const [key = ''] = keys;
    const [value = '', other = ''] = values;
    switch (op) {
      case 'set':
        for (const [i, one] of keys.entries()) this.#values.set(one, values[i] ?? '');
        return null;
      case 'have':
        return keys.every((one) => this.#values.has(one));
      case 'add':
        return this.#add(key, number);
      case 'append':
        this.#values.set(key, encoded(Buffer.concat([this.#bytes(key), Buffer.from(value, 'base64')])));
        return null;
      case 'exchange':
        return [this.#exchange(key, value, other)];
      case 'remove':
        return this.#values.delete(key);
      case 'forget':
        for (const one of this.#values.keys()) if (one.startsWith(key)) this.#values.delete(one);
        return null;
      default:
        return this.#values.size;
    }
  }

  /** Adds to a number, which torch's stores hold as text. */
  #add(key: string, number: number): number {
    const sum = Number(this.#bytes(key).toString()) + number;
    this.#values.set(key, encoded(Buffer.from(String(sum))));
    return sum;
  }

  /** Replaces a value that is as expected; an absent value is as expected if nothing is. Returns what a reader now gets. */
  #exchange(key: string, expected: string, desired: string): string {
    const now = this.#values.get(key);
    if ((now ?? '') !== expected) return now ?? expected;
    this.#values.set(key, desired);
    return desired;
  }

  #bytes(key: string): Buffer {
    return Buffer.from(this.#values.get(key) ?? '', 'base64');
  }

  #answerWaiting(): void {
    for (const waiting of this.#waiting) {
      const values = waiting.request.keys.map((key) => this.#values.get(key));
      if (values.includes(undefined)) continue;
      this.#waiting.delete(waiting);
      waiting.answer(values as string[]); // the line above has left out absent values
    }
  }
}

function encoded(bytes: Buffer): string {
  return bytes.toString('base64');
}
