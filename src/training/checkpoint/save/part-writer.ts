import { constants } from 'node:fs';
import { join } from 'node:path';
import type { Bytes, ErrorJson, ShardlabError } from '../../../core';
import { temporaryFolder } from '../format/checkpoint-folder';
import type { ChecksumRun, FileChecksums } from '../format/checksums';
import { checksumOf } from '../format/crc32';
import { type FilePosition, type FileSystem, writeAll, writeError, writeWhole } from '../format/file-system';
import { encodeValues, type StoredDType } from '../format/stored-dtypes';

/** A file whose header this rank writes. */
export interface FileHead {
  readonly file: string;
  readonly bytes: Uint8Array;
  readonly fileBytes: Bytes;
}

/** Elements [at, at + values.length) of a stored tensor; the first of them is at byte `position` of the file. */
export interface Chunk {
  readonly file: string;
  readonly tensor: string;
  readonly dtype: StoredDType;
  readonly at: number;
  readonly position: Bytes;
  readonly values: Float32Array | Int32Array;
}

/** The folder and id of a save, the processes of its ranks, and this rank's index. */
export interface SaveIdentity {
  readonly folder: string;
  readonly id: string;
  /** By rank, a text that identifies the rank's process (see `processMark`). The first of these ranks commits. */
  readonly members: readonly string[];
  readonly rank: number;
}

/** The data that a rank needs to write its part of a checkpoint. */
export interface PartSpec extends SaveIdentity {
  readonly heads: readonly FileHead[];
  /** Number of elements per checksum. */
  readonly blockElements: number;
  /** The number of written bytes, as one BigInt64. */
  readonly written: SharedArrayBuffer;
}

/** The report that a rank makes for the committing rank when its own part is written, or when the rank gives up. */
export type PartReport =
  | { readonly files: Readonly<Record<string, Partial<FileChecksums>>> }
  | {
      readonly error: ErrorJson;
      /** Whether the rank gave up before it had a writer; such a rank does not wait for the save's end. */
      readonly hasLeft?: boolean;
    };

interface WrittenFile {
  header?: string;
  bytes?: number;
  tensors: Record<string, ChecksumRun[]>;
}

/** Returns the path of a rank's report. */
export function reportFile(temporary: string, rank: number): string {
  return join(temporary, `part-${rank}.json`);
}

/**
 * Writes one rank's part of a checkpoint at the layout's positions. After the first error, the writer writes nothing more
 * except the report of this error.
 */
export class PartWriter {
  readonly #spec: PartSpec;
  readonly #fs: FileSystem;
  /** The folder of the incomplete save. */
  readonly #temporary: string;
  readonly #descriptors = new Map<string, number>();
  readonly #files: Record<string, WrittenFile> = {};
  #error: ShardlabError | undefined;

  constructor(spec: PartSpec, fs: FileSystem) {
    this.#spec = spec;
    this.#fs = fs;
    this.#temporary = temporaryFolder(spec.folder, spec.id);
    for (const head of spec.heads) this.#attempt({ file: head.file, offset: 0 }, () => this.#begin(head));
  }

  /**
   * Writes a chunk. The chunks of one contiguous range of a tensor's elements must come in order, and each chunk except the
   * last must consist of whole checksum blocks.
   */
  write(chunk: Chunk): void {
    const { file, tensor, position, values, dtype } = chunk;
    const bytes = encodeValues(values, dtype);
    this.#attempt({ file, tensor, offset: position }, () => {
      writeAll(this.#fs, this.#descriptor(file), bytes, position);
    });
    if (this.#error === undefined) this.#note(chunk, bytes);
    Atomics.add(new BigInt64Array(this.#spec.written), 0, BigInt(values.byteLength));
  }

  /** Stops the writer; the report will contain this error, unless an earlier error stopped the writer. */
  fail(error: ShardlabError): void {
    this.#error ??= error;
  }

  /**
   * Flushes all files to the disk and writes the report, which contains the first error if there was one. If the report cannot
   * be written, returns the first error, or else the error of the report's write.
   */
  finish(): ShardlabError | undefined {
    for (const [file, descriptor] of this.#descriptors) {
      this.#attempt({ file }, () => this.#fs.fsyncSync(descriptor));
      // After an error, the file's space is freed for the report.
      if (this.#error !== undefined) this.#try({ file }, () => this.#fs.ftruncateSync(descriptor, 0));
      this.#try({ file }, () => this.#fs.closeSync(descriptor));
    }
    this.#descriptors.clear();
    const report = reportFile(this.#temporary, this.#spec.rank);
    const content: PartReport =
      this.#error === undefined ? { files: this.#files } : { error: this.#error.toJSON() };
    try {
      writeWhole(this.#fs, report, JSON.stringify(content));
      return undefined;
    } catch (cause) {
      this.#leaveEmpty(report);
      return this.#error ?? writeError(cause, { file: report });
    }
  }

  /** Leaves an empty report, which means that the disk was full; an empty or renamed file needs no space. */
  #leaveEmpty(report: string): void {
    const files = Object.keys(this.#files).map((file) => join(this.#temporary, file));
    const own = files.find((file) => this.#fs.existsSync(file));
    try {
      if (own === undefined) this.#fs.closeSync(this.#fs.openSync(report, 'w'));
      else this.#fs.renameSync(own, report);
    } catch {
      // The folder is gone, because the first rank has given up the save; `committed` finds this out next.
    }
  }

  #begin({ file, bytes, fileBytes }: FileHead): void {
    const descriptor = this.#descriptor(file);
    this.#fs.ftruncateSync(descriptor, fileBytes);
    writeAll(this.#fs, descriptor, bytes, 0);
    const checksums = this.#checksums(file);
    checksums.header = checksumOf(bytes);
    checksums.bytes = fileBytes;
  }

  #note({ file, tensor, at, values }: Chunk, bytes: Uint8Array): void {
    const { tensors } = this.#checksums(file);
    tensors[tensor] ??= [];
    const runs = tensors[tensor];
    const last = runs.at(-1);
    const { blockElements } = this.#spec;
    const blockBytes = blockElements * (bytes.length / values.length);
    let crc32 = '';
    for (let from = 0; from < bytes.length; from += blockBytes) {
      crc32 += checksumOf(bytes.subarray(from, from + blockBytes));
    }
    const endsBlock = last !== undefined && last.length % blockElements === 0;
    if (endsBlock && last.at + last.length === at) {
      runs[runs.length - 1] = { at: last.at, length: last.length + values.length, crc32: last.crc32 + crc32 };
    } else {
      runs.push({ at, length: values.length, crc32 });
    }
  }

  #checksums(file: string): WrittenFile {
    this.#files[file] ??= { tensors: {} };
    return this.#files[file];
  }

  /** Opens a file and does not truncate it, because other ranks may write into the same file. */
  #descriptor(file: string): number {
    let descriptor = this.#descriptors.get(file);
    if (descriptor === undefined) {
      descriptor = this.#fs.openSync(join(this.#temporary, file), constants.O_RDWR | constants.O_CREAT);
      this.#descriptors.set(file, descriptor);
    }
    return descriptor;
  }

  /** Does the same as `#try`, but does nothing after an error. */
  #attempt(place: FilePosition, work: () => void): void {
    if (this.#error === undefined) this.#try(place, work);
  }

  /** Runs `work`. Stores an error of `work` for the report, which contains only the first error. */
  #try(place: FilePosition, work: () => void): void {
    try {
      work();
    } catch (cause) {
      this.#error ??= writeError(cause, { ...place, file: join(this.#temporary, place.file) });
    }
  }
}
