import { statSync } from 'node:fs';
import { isNames, type OwnData } from '../../../config';
import { type Bytes, ShardlabError } from '../../../core';
import { findFiles } from '../files/find-files';
import type { PreparedData } from '../prepared';
import { prepareImages } from './image-folder';
import { prepareInstructions } from './instructions';
import type { PrepareParts } from './prepare-parts';
import { prepareArrays, prepareColumns } from './rows';
import { prepareGivenTokens, prepareTokens } from './token-file';

/** The parts that the preparation needs besides the settings of the data. */
export interface PrepareOptions extends Pick<PrepareParts, 'baseDir' | 'seed' | 'fileFor'> {
  /** Gets the data's name, the number of bytes that were read so far, and the number of bytes of all files. */
  readonly progress: (name: string, done: Bytes, total: Bytes) => void;
}

/**
 * Reads and checks a user's data, and writes the numbers that ranks read. [Note: prepared data]
 * Throws: CONFIG naming file, line or row, column, and what to change; IO for a file that cannot be read or written.
 */
export async function prepareData(data: OwnData, options: PrepareOptions): Promise<PreparedData> {
  try {
    return await prepare(data, options);
  } catch (error) {
    if (error instanceof ShardlabError || !(error instanceof Error) || !('code' in error)) throw error;
    const advice = error.code === 'ENOSPC' ? '; set TMPDIR to a folder with more space' : '';
    throw new ShardlabError('IO', `data: ${error.message}${advice}`, { cause: error });
  }
}

async function prepare(data: OwnData, options: PrepareOptions): Promise<PreparedData> {
  const { baseDir, seed, fileFor, progress } = options;
  if (data.tokens !== undefined) return prepareGivenTokens(data, options);
  const paths = data.instructions ?? data.path;
  if (paths === undefined) return prepareArrays(data, options);
  const files = findFiles({ paths, format: data.format, baseDir });
  const { validation } = data;
  const validationFiles = isNames(validation)
    ? findFiles({ paths: validation, format: data.format ?? files.format, baseDir })
    : null;
  const name = [paths].flat().join(', ');
  const all = [...files.files, ...(validationFiles?.files ?? [])];
  const total = all.reduce((sum, file) => sum + statSync(file).size, 0);
  let done = 0;
  const read = (bytes: number): void => {
    done += bytes;
    progress(name, done, total);
  };
  const parts: PrepareParts = { name, files, validationFiles, baseDir, seed, fileFor, read };
  if (data.instructions !== undefined) return prepareInstructions(data, parts);
  if (files.format === 'images') return prepareImages(data, parts);
  return data.x === undefined ? prepareTokens(data, parts) : prepareColumns(data, parts);
}
