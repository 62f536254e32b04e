import { closeSync, fstatSync, readSync } from 'node:fs';
import { openRegularFile, ShardlabError } from '../../../core';
import { fileError } from './file-system';
import { MAGIC_BYTES, refuseOtherFormats } from './not-safetensors';
import {
  headerBytes,
  LENGTH_BYTES,
  numElements,
  parseHeader,
  type SafetensorsHeader,
  type TensorEntry,
} from './safetensors-header';
import { storedBytes } from './stored-dtypes';

/** A safetensors file. Only its header is in memory; values are read in ranges. The code that opens a file also closes it. */
export class SafetensorsFile {
  readonly file: string;
  readonly header: SafetensorsHeader;
  /** The bytes before the data: the header's length, and the header. */
  readonly headerBytes: Buffer;
  readonly #descriptor: number;

  /** Opens a file. Throws: IO if the file is missing, is not safetensors, is truncated, or has a wrong header. */
  constructor(file: string) {
    this.file = file;
    this.#descriptor = opened(file);
    try {
      const { size } = fstatSync(this.#descriptor);
      const first = this.#bytesAt(0, Math.min(MAGIC_BYTES, size));
      refuseOtherFormats(file, first);
      this.headerBytes = this.#bytesAt(0, LENGTH_BYTES + headerBytes(first, size, file));
      this.header = parseHeader(this.headerBytes.toString('utf8', LENGTH_BYTES), size, file);
    } catch (error) {
      this.close();
      throw error;
    }
  }

  /** Returns a tensor's entry. Throws: IO if the file has no tensor of this name. */
  entry(name: string): TensorEntry {
    const entry = this.header.tensors.get(name);
    if (entry !== undefined) return entry;
    throw fileError(`${this.file} has no tensor ${name}; it has ${this.header.tensors.size} other tensors`, {
      file: this.file,
      tensor: name,
    });
  }

  /** Returns the stored bytes of elements [start, start + length) of a flattened tensor. Throws: IO if the range is too long. */
  read(name: string, start: number, length: number): Buffer {
    const { dtype, shape } = this.entry(name);
    if (start + length > numElements(shape)) {
      throw fileError(
        `${this.file}: elements ${start} to ${start + length} of ${name} were requested, but its shape is [${shape.join(', ')}]`,
        { file: this.file, tensor: name },
      );
    }
    return this.#bytesAt(this.position(name, start), storedBytes(dtype) * length);
  }

  /** Returns the byte position of a tensor's element in the file. */
  position(name: string, start: number): number {
    const { from, dtype } = this.entry(name);
    return this.header.dataStart + from + storedBytes(dtype) * start;
  }

  close(): void {
    closeSync(this.#descriptor);
  }

  #bytesAt(position: number, length: number): Buffer {
    const bytes = Buffer.alloc(length);
    for (let done = 0; done < length; ) {
      const count = readSync(this.#descriptor, bytes, done, length - done, position + done);
      if (count === 0) {
        throw fileError(
          `${this.file} ends at byte ${position + done}, but ${length - done} more bytes had to be read; it was truncated after it was opened`,
          { file: this.file, offset: position + done },
        );
      }
      done += count;
    }
    return bytes;
  }
}

function opened(file: string): number {
  try {
    return openRegularFile(file);
  } catch (cause) {
    if (cause instanceof ShardlabError) throw cause;
    throw fileError(`cannot read ${file}: ${String(cause)}`, { file }, cause);
  }
}
