import { closeSync, openSync, readSync, writeSync } from 'node:fs';
import { ShardlabError } from '../core/errors';

/** Where a block lies in its file. */
export interface BlockRange {
  readonly offset: number;
  readonly bytes: number;
}

/** Closes the files that nobody can read any more. */
const FORGOTTEN = new FinalizationRegistry<number>(closeSync);

/**
 * Blocks of bytes that are not to lie in memory. The file is made with its first block, for this user alone. It stays readable
 * for as long as this object lives, also when its folder was removed.
 */
export class SpillFile {
  readonly path: string;
  #file: number | undefined;
  #end = 0;

  constructor(path: string) {
    this.path = path;
  }

  /** Where the next block begins. */
  get end(): number {
    return this.#end;
  }

  /** Writes a block at the end. Throws: IO (a full disk, say); the blocks before it stay. */
  append(block: Uint8Array): BlockRange {
    return this.#attempt('write', () => {
      const [file, offset] = [this.#open(), this.#end];
      for (let at = 0; at < block.length; ) at += writeSync(file, block, at, block.length - at, offset + at);
      this.#end += block.length;
      return { offset, bytes: block.length };
    });
  }

  /** Throws: IO. */
  read({ offset, bytes }: BlockRange): Buffer {
    return this.#attempt('read', () => {
      const [file, block] = [this.#open(), Buffer.allocUnsafe(bytes)];
      for (let at = 0; at < bytes; ) {
        const read = readSync(file, block, at, bytes - at, offset + at);
        if (read === 0) throw new Error(`the file ends after ${offset + at} of ${offset + bytes} bytes`);
        at += read;
      }
      return block;
    });
  }

  /** Gives up what lies from `end` on: the next block takes its place. */
  cut(end: number): void {
    this.#end = Math.min(this.#end, end);
  }

  #open(): number {
    if (this.#file === undefined) {
      this.#file = openSync(this.path, 'wx+', 0o600);
      FORGOTTEN.register(this, this.#file);
    }
    return this.#file;
  }

  #attempt<T>(what: 'read' | 'write', work: () => T): T {
    try {
      return work();
    } catch (cause) {
      const reason = cause instanceof Error ? cause.message : String(cause);
      const details = { file: this.path };
      throw new ShardlabError('IO', `cannot ${what} ${this.path}: ${reason}`, { cause, details });
    }
  }
}
