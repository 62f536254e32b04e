import { randomUUID } from 'node:crypto';
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

/** Prepares data in files of the job's folder, and shows the progress. Throws: CONFIG, IO. [Note: prepared data] */
export async function prepareInFolder(
  data: DataToPrepare,
  seed: number,
  { baseDir, folder }: DataFolders,
): Promise<PreparedData> {
  return withProgress('reading data', 'bytes', (show) =>
    prepareData(data, {
      baseDir,
      seed,
      fileFor: (name) => join(folder, `data-${randomUUID()}-${name}`),
      progress: (name, done, total) => show(done, total, `reading ${name}`),
    }),
  );
}
