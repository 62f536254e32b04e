import { randomUUID } from 'node:crypto';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { withProgress } from '../../cell';
import { type DataToPrepare, type PreparedData, prepareData } from '../../training';

/** The folder that the data come from, and the folder in which the data are prepared. */
export interface DataFolders {
  /** The folder in which relative paths begin. */
  readonly baseDir: string;
  /** The job's folder. */
  readonly folder: string;
}

/**
 * Prepares data in files of the job's folder, and shows the progress; after an error, no file remains. Throws: CONFIG, IO; the
 * reason of `signal` after it is aborted. [Note: prepared data]
 */
export async function prepareInFolder(
  data: DataToPrepare,
  seed: number,
  { baseDir, folder }: DataFolders,
  signal?: AbortSignal,
): Promise<PreparedData> {
  const files: string[] = [];
  const fileFor = (name: string): string => {
    const file = join(folder, `data-${randomUUID()}-${name}`);
    files.push(file);
    return file;
  };
  const unit = data.videos === undefined ? 'bytes' : 'videos';
  try {
    return await withProgress('reading data', unit, (show) =>
      prepareData(data, {
        ...{ baseDir, seed, fileFor, signal },
        progress: (name, done, total) => show(done, total, `reading ${name}`),
      }),
    );
  } catch (error) {
    for (const file of files) rmSync(file, { force: true });
    throw error;
  }
}
