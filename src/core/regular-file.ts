import {
  closeSync,
  constants,
  fstatSync,
  mkdirSync,
  openSync,
  readFileSync,
  type Stats,
  statSync,
} from 'node:fs';
import { dirname } from 'node:path';
import { ShardlabError } from './errors';

/**
 * Opens a regular file for reading. A FIFO or a device would block or never end, so it is refused at once. Throws: IO
 * for anything but a regular file; errors of openSync.
 */
export function openRegularFile(path: string): number {
  const descriptor = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
  return checked(path, descriptor, (stats) => stats.isFile());
}

/**
 * Makes or empties a file for writing; a device (/dev/null) is allowed too. Throws: IO for a FIFO; errors of openSync.
 */
export function createOutputFile(path: string): number {
  const { O_WRONLY, O_CREAT, O_TRUNC, O_NONBLOCK } = constants;
  const descriptor = openSync(path, O_WRONLY | O_CREAT | O_TRUNC | O_NONBLOCK);
  return checked(path, descriptor, (stats) => stats.isFile() || stats.isCharacterDevice());
}

/** The text of a regular file. Throws: IO for anything but a regular file; errors of readFileSync. */
export function readRegularFile(path: string): string {
  const descriptor = openRegularFile(path);
  try {
    return readFileSync(descriptor, 'utf8');
  } finally {
    closeSync(descriptor);
  }
}

/**
 * Makes a folder and its missing parents. Node's recursive mkdir never returns for a folder below /proc. Throws: errors of
 * mkdirSync.
 */
export function makeFolder(path: string): void {
  if (isFolder(path)) return;
  makeFolder(dirname(path));
  try {
    mkdirSync(path);
  } catch (error) {
    // Another process may have made it meanwhile.
    if (!isFolder(path)) throw error;
  }
}

function isFolder(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() === true;
}

function checked(path: string, descriptor: number, isTaken: (stats: Stats) => boolean): number {
  const stats = fstatSync(descriptor);
  if (isTaken(stats)) return descriptor;
  closeSync(descriptor);
  throw new ShardlabError('IO', `${path} is ${kindOf(stats)}, not a regular file; name a file`, {
    details: { file: path },
  });
}

function kindOf(stats: Stats): string {
  if (stats.isDirectory()) return 'a directory';
  if (stats.isFIFO()) return 'a FIFO';
  return stats.isSocket() ? 'a socket' : 'a device';
}
