import fs from 'node:fs';
import { dirname } from 'node:path';
import { makeFolder, ShardlabError, shortenedWithin } from '../../../core';

/** The functions of node:fs that a save needs. Tests pass functions that behave like a full disk. */
export type FileSystem = Pick<
  typeof fs,
  | 'closeSync'
  | 'existsSync'
  | 'fsyncSync'
  | 'ftruncateSync'
  | 'mkdirSync'
  | 'openSync'
  | 'readFileSync'
  | 'readdirSync'
  | 'renameSync'
  | 'rmSync'
  | 'statSync'
  | 'writeSync'
>;

/** The file, tensor and byte at which an error occurred. */
export interface FilePosition {
  readonly file: string;
  readonly tensor?: string | undefined;
  /** Bytes from the file's beginning. */
  readonly offset?: number | undefined;
}

/** Returns the IO error for a file that cannot be used. */
export function fileError(message: string, place: FilePosition, cause?: unknown): ShardlabError {
  return new ShardlabError('IO', shortenedWithin(message, MOST_MESSAGE), { cause, details: { ...place } });
}

/** The number of characters of a message about a file. Names in damaged files may be of any length. */
const MOST_MESSAGE = 2000;

/** Writes all bytes into the file, from byte `position` on. Throws: errors of writeSync. */
export function writeAll(fs: FileSystem, descriptor: number, bytes: Uint8Array, position: number): void {
  for (let done = 0; done < bytes.length; ) {
    done += fs.writeSync(descriptor, bytes, done, bytes.length - done, position + done);
  }
}

/** Writes a file atomically: a reader finds the complete file or no file, also after a crash. Throws: IO. */
export function writeWhole(fs: FileSystem, file: string, text: string): void {
  const temporary = `${file}.part`;
  try {
    const descriptor = fs.openSync(temporary, 'w');
    try {
      writeAll(fs, descriptor, Buffer.from(text), 0);
      fs.fsyncSync(descriptor);
    } finally {
      fs.closeSync(descriptor);
    }
    fs.renameSync(temporary, file);
  } catch (cause) {
    throw writeError(cause, { file });
  }
}

/** Flushes a folder's entries (names of files) to the disk, so that renames survive a crash. */
export function syncFolder(fs: FileSystem, folder: string): void {
  const descriptor = fs.openSync(folder, 'r');
  try {
    fs.fsyncSync(descriptor);
  } finally {
    fs.closeSync(descriptor);
  }
}

const NOT_ALLOWED = 'you may not write there: save elsewhere, or change the folder’s permissions';
const NOT_A_FOLDER = 'a part of the path is not a folder: save elsewhere';

/** Advice about a disk without space, by the error's code. The advice ends with what else the user can do. */
const NO_SPACE: Readonly<Record<string, string>> = {
  ENOSPC: 'the disk is full: free some space',
  EDQUOT: 'your disk quota is used up: delete something',
};

/** Advice about another error of the operating system, by the error's code. */
const ADVICE: Readonly<Record<string, string>> = {
  EFBIG: 'the file would exceed the size limit (ulimit -f): lower maxShardBytes, or raise the limit',
  EACCES: NOT_ALLOWED,
  EPERM: NOT_ALLOWED,
  EEXIST: NOT_A_FOLDER,
  ENOENT: 'no folder can be made there: save elsewhere',
  ENOTDIR: NOT_A_FOLDER,
  EROFS: 'the disk is read-only: save elsewhere',
  EMFILE: 'too many files are open: raise maxShardBytes, or the limit (ulimit -n)',
};

/** Returns the error of a write of a checkpoint that failed, with file, tensor, offset and advice. */
export function writeError(cause: unknown, place: FilePosition): ShardlabError {
  return failedWrite(cause, place, { after: '. The previous checkpoint is unchanged' });
}

/** How the message of a failed write ends, and what the user can do instead of freeing space. */
interface WriteAdvice {
  readonly after?: string;
  readonly insteadOfSpace?: string | undefined;
}

/** Returns the error of a write that failed, with file, tensor, offset and advice. */
export function failedWrite(
  cause: unknown,
  { file, tensor, offset }: FilePosition,
  { after = '', insteadOfSpace = 'save to another disk' }: WriteAdvice = {},
): ShardlabError {
  if (cause instanceof ShardlabError) return cause;
  const code = cause instanceof Error && 'code' in cause ? String(cause.code) : '';
  const at = [
    tensor === undefined ? '' : ` in tensor ${tensor}`,
    offset === undefined ? '' : ` at byte ${offset}`,
  ].join('');
  const noSpace = NO_SPACE[code];
  const advice =
    noSpace === undefined
      ? (ADVICE[code] ?? 'check whether the folder is writable')
      : `${noSpace}, or ${insteadOfSpace}`;
  const reason = cause instanceof Error ? cause.message : String(cause);
  return new ShardlabError('IO', `cannot write ${file}${at}: ${advice} (${reason})${after}`, {
    cause,
    details: { file, tensor, offset, system: code },
  });
}

/** Tests before the training whether a save can write a checkpoint at `folder`. Throws: IO. */
export function requireSavePlace(folder: string): void {
  try {
    makeFolder(dirname(folder));
    if (fs.existsSync(folder)) fs.readdirSync(folder);
    // Makes a folder as a test, because permissions do not show that a folder is in /proc, or that the disk is full.
    fs.rmdirSync(fs.mkdtempSync(`${folder}.tried-`));
  } catch (cause) {
    throw writeError(cause, { file: folder });
  }
}
