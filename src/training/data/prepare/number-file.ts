import { createHash } from 'node:crypto';
import { closeSync, openSync, writeSync } from 'node:fs';

type Numbers = Uint8Array | Uint16Array | Uint32Array | Float64Array;

const BUFFERED = 2 ** 17;

/** Writes numbers one after the other into a new file, in this machine's byte order. The caller closes it. */
export class NumberFile<Kind extends Numbers> {
  readonly path: string;
  readonly #descriptor: number;
  readonly #buffer: Kind;
  readonly #hash = createHash('sha1');
  #digest = '';
  #used = 0;
  /** How many numbers were written so far. */
  count = 0;

  constructor(path: string, kind: new (length: number) => Kind) {
    this.path = path;
    this.#descriptor = openSync(path, 'w');
    this.#buffer = new kind(BUFFERED);
  }

  write(values: ArrayLike<number>): void {
    for (let i = 0; i < values.length; i++) {
      if (this.#used === BUFFERED) this.#flush();
      this.#buffer[this.#used++] = values[i] ?? 0;
    }
    this.count += values.length;
  }

  /** A hash of the numbers; the file must be closed before. */
  get digest(): string {
    return this.#digest;
  }

  /** Writes the remaining numbers, and closes the file. */
  close(): void {
    try {
      this.#flush();
      this.#digest = this.#hash.digest('hex');
    } finally {
      closeSync(this.#descriptor);
    }
  }

  #flush(): void {
    const bytes = Buffer.from(this.#buffer.buffer, 0, this.#used * this.#buffer.BYTES_PER_ELEMENT);
    this.#hash.update(bytes);
    for (let at = 0; at < bytes.length; ) at += writeSync(this.#descriptor, bytes, at);
    this.#used = 0;
  }
}
