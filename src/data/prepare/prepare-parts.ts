import type { FoundFiles } from '../files/find-files';
import type { BytesRead } from '../files/text-file';

/** What the preparation of files needs. */
export interface PrepareParts {
  /** The data's name for messages. */
  readonly name: string;
  readonly files: FoundFiles;
  /** null: validation is a share of the data, or there is none. */
  readonly validationFiles: FoundFiles | null;
  /** The folder in which relative paths begin. */
  readonly baseDir: string;
  readonly seed: number;
  /** Returns the path of a new file for prepared numbers; each call gives another path. */
  fileFor(name: string): string;
  /** Gets the progress. */
  readonly read: BytesRead;
}
