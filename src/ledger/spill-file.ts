import { closeSync, openSync, readSync, writeSync } from 'node:fs';
import { ShardlabError } from '../core';

/** The position of a block in its file. */
export interface BlockRange {
  readonly offset: number;
  readonly bytes: number;
}

/** Closes the files of SpillFiles that were garbage-collected. */
const FORGOTTEN = new FinalizationRegistry<number>(closeSync);

/**
 * Stores blocks of bytes in a file instead of memory. The file is made for the first block, and other users may not read it.
 * The file is readable as long as this object exists, even if the file's folder was removed.
 */
export class SpillFile {
  readonly path: string;
  #file: number | undefined;
  #end = 0;

  constructor(path: string) {
    this.path = path;
  }

  /** Position at which the next block begins. */
  get end(): number {
    return this.#end;
  }

  /** Writes a block at the end. Throws: IO (for example, a full disk); earlier blocks are still readable. */
  append(block: Uint8Array): BlockRange {
    return this.#attempt('write', () => {
      const [file, offset] = [this.#open(), this.#end];
      for (let at = 0; at < block.length; ) at += writeSync(file, block, at, block.length - at, offset + at);
      this.#end += block.length;
      return { offset, bytes: block.length };
    });
  }

  /** Reads a block. Throws: IO. */
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

  /** Drops all bytes from the position `end` on; the next block is written at this position. */
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

  #attempt<T>(operation: 'read' | 'write', work: () => T): T {
    try {
      return work();
    } catch (cause) {
      const reason = cause instanceof Error ? cause.message : String(cause);
      const details = { file: this.path };
      throw new ShardlabError('IO', `cannot ${operation} ${this.path}: ${reason}`, { cause, details });
    }
  }
}
