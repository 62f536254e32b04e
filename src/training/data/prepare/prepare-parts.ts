import { type Bytes, ShardlabError } from '../../../core';
import type { FoundFiles } from '../files/find-files';
import type { BytesRead } from '../files/text-file';

/** The parts that the preparation of files needs. */
export interface PrepareParts {
  /** The data's name in messages to the user. */
  readonly name: string;
  readonly files: FoundFiles;
  /** The files for validation; null if validation is a share of the data, or if there is no validation. */
  readonly validationFiles: FoundFiles | null;
  /** The folder in which relative paths begin. */
  readonly baseDir: string;
  readonly seed: number;
  /** Returns the path of a new file for prepared numbers; each call gives another path. */
  fileFor(name: string): string;
  /** Gets the number of bytes that were read since its last call. */
  readonly read: BytesRead;
}

/** The parts that the preparation needs besides the settings of the data. */
export interface PrepareOptions extends Pick<PrepareParts, 'baseDir' | 'seed' | 'fileFor'> {
  /** Ends the preparation. */
  readonly signal?: AbortSignal | undefined;
  /** Gets the data's name, and the numbers of bytes that were read so far and of all files; of videos for a dit. */
  readonly progress: (name: string, done: Bytes, total: Bytes) => void;
}

/** Returns the error to throw for an error of the preparation: IO in place of an error of the file system. */
export function dataError(error: unknown): unknown {
  if (error instanceof ShardlabError || !(error instanceof Error) || !('code' in error)) return error;
  const advice = error.code === 'ENOSPC' ? '; set TMPDIR to a folder with more space' : '';
  return new ShardlabError('IO', `data: ${error.message}${advice}`, { cause: error });
}
