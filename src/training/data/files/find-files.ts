import { type Dirent, readdirSync, type Stats } from 'node:fs';
import { basename, extname, join, resolve } from 'node:path';
import { type DataFormat, LONGEST_PATH, nearest } from '../../../config';
import { ConfigError, shortened, statIfThere } from '../../../core';

/** Files of one format. */
export interface FoundFiles {
  readonly format: DataFormat;
  /** Absolute paths, in order of their names. */
  readonly files: readonly string[];
  /** The folder that the user named; null if the user named a file or several paths. Its subfolders are the classes of images. */
  readonly folder: string | null;
}

const BUILT_IN = ['typescript', 'synthetic'];

/** Endings of the names of video files. Source: DiffSynth-Studio's UnifiedDataset. */
export const VIDEO_NAMES = ['.mp4', '.avi', '.mov', '.wmv', '.mkv', '.flv', '.webm', '.gif'] as const;

const FORMAT_OF: Readonly<Record<string, DataFormat>> = {
  '.jsonl': 'jsonl',
  '.ndjson': 'jsonl',
  '.json': 'jsonl',
  '.csv': 'csv',
  '.tsv': 'csv',
  '.parquet': 'parquet',
  '.png': 'images',
  '.jpg': 'images',
  '.jpeg': 'images',
  ...Object.fromEntries(VIDEO_NAMES.map((ending) => [ending, 'videos' as const])),
};

/** The paths of files that the user named, and the format of these files. */
export interface FileQuery {
  readonly paths: string | readonly string[];
  /** The files' format. Default: the format that the files' names show. */
  readonly format: DataFormat | undefined;
  /** The folder in which relative paths begin. */
  readonly baseDir: string;
}

/**
 * Finds the files of paths; a folder stands for all files in it and in its subfolders, except hidden files. With a format, a
 * folder stands for its files of that format. Throws: CONFIG, which names the path, if the path does not exist, has no file,
 * or has files of several formats.
 */
export function findFiles({ paths, format, baseDir }: FileQuery): FoundFiles {
  const named = [paths].flat().map((path) => ({ path, full: resolve(baseDir, path) }));
  const files = named.flatMap(({ path, full }) => {
    if (!statOf(path, full, baseDir).isDirectory()) return [full];
    const inside = filesIn(full);
    if (inside.length === 0)
      throw new ConfigError(`data: the folder ${path} has no files; name a folder with data`);
    if (format === undefined || format === 'text') return inside;
    const fitting = inside.filter((file) => formatOf(file) === format);
    if (fitting.length > 0) return fitting;
    throw new ConfigError(
      `data: the folder ${path} has no files of format '${format}'; it has ${basename(inside[0] ?? '')}; change format or the folder`,
    );
  });
  const [only, second] = named;
  const isFolder = only !== undefined && second === undefined && only.full !== files[0];
  return { format: format ?? commonFormat(files), files, folder: isFolder ? only.full : null };
}

function statOf(path: string, full: string, baseDir: string): Stats {
  const stats = full.length <= LONGEST_PATH ? statIfThere(full) : undefined;
  if (stats !== undefined) {
    if (stats.isDirectory() || stats.isFile()) return stats;
    throw new ConfigError(`data: ${path} is neither a file nor a folder; name a file or a folder`);
  }
  const near = nearest(path, BUILT_IN);
  const hint =
    near === undefined ? `built-in data are '${BUILT_IN.join("' and '")}'` : `did you mean '${near}'?`;
  const where = full === path ? '' : ` in ${baseDir}`;
  throw new ConfigError(`data: there is no file or folder ${shortened(path)}${where}; ${hint}`, {
    file: full,
  });
}

function filesIn(folder: string): string[] {
  const entries = readdirSync(folder, { withFileTypes: true }).filter(({ name }) => !name.startsWith('.'));
  const inOrder = (a: Dirent, b: Dirent): number => (a.name < b.name ? -1 : 1);
  return entries.sort(inOrder).flatMap((entry) => {
    const path = join(folder, entry.name);
    const stats = entry.isSymbolicLink() ? statIfThere(path) : entry;
    // A link to a folder is not followed, because it could lead back to a folder above it.
    if (stats?.isDirectory() === true) return entry.isSymbolicLink() ? [] : filesIn(path);
    return stats?.isFile() === true ? [path] : [];
  });
}

function formatOf(file: string): DataFormat {
  return FORMAT_OF[extname(file).toLowerCase()] ?? 'text';
}

function commonFormat(files: readonly string[]): DataFormat {
  const [first = '', ...rest] = files;
  const format = formatOf(first);
  const unlikeFile = rest.find((file) => formatOf(file) !== format);
  if (unlikeFile === undefined) return format;
  throw new ConfigError(
    `data: ${first} and ${unlikeFile} have different formats ('${format}' and '${formatOf(unlikeFile)}'); ` +
      `give format: '${formatOf(unlikeFile)}' to read only files of that format, or name another folder`,
  );
}
