import { isUtf8 } from 'node:buffer';
import nodeFs, {
  closeSync,
  constants,
  fstatSync,
  openSync,
  readFileSync,
  readlinkSync,
  realpathSync,
  rmSync,
  type Stats,
} from 'node:fs';
import { dirname, resolve } from 'node:path';
import { ShardlabError } from './errors';

/**
 * Opens a regular file for reading. FIFOs and devices are refused at once, because reading them may block or never end.
 * Throws: IO if the file is not a regular file; errors of openSync.
 */
export function openRegularFile(path: string): number {
  const descriptor = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
  return checkKind(path, descriptor, (stats) => stats.isFile());
}

/**
 * Creates a file, or empties an existing file; with `isAppended`, later writes are appended to the existing file. The file may be
 * a device (/dev/null). Throws: IO for a FIFO; errors of openSync.
 */
export function createOutputFile(path: string, { isAppended = false } = {}): number {
  const { O_WRONLY, O_CREAT, O_TRUNC, O_APPEND, O_NONBLOCK } = constants;
  const descriptor = openSync(path, O_WRONLY | O_CREAT | (isAppended ? O_APPEND : O_TRUNC) | O_NONBLOCK);
  return checkKind(path, descriptor, (stats) => stats.isFile() || stats.isCharacterDevice());
}

/** The size of the largest text that is read at once; the texts of one model's files have a few megabytes. */
const MOST_BYTES = 2 ** 28;
/** The size of the largest file that may be a config. */
export const MOST_CONFIG_BYTES = 2 ** 22;

/**
 * Returns the text of a regular file, without a byte order mark. Throws: IO if the file is not a regular file, is larger than `most`
 * bytes, or is not UTF-8, of which wrong bytes would be replaced in silence; errors of openSync and readFileSync.
 */
export function readRegularFile(path: string, most = MOST_BYTES): string {
  const descriptor = openRegularFile(path);
  try {
    const { size } = fstatSync(descriptor);
    if (size > most)
      throw refused(path, `has ${size} bytes, and at most ${most} are read; name another file`);
    return textOf(path, readFileSync(descriptor));
  } finally {
    closeSync(descriptor);
  }
}

function textOf(path: string, bytes: Buffer): string {
  const text = bytes.toString('utf8');
  if (isUtf8(bytes)) return text.startsWith(BYTE_ORDER_MARK) ? text.slice(1) : text;
  const mark = bytes.toString('hex', 0, 2);
  if (mark === 'fffe' || mark === 'feff') throw refused(path, 'is UTF-16; save it as UTF-8');
  const line = text.slice(0, text.indexOf(REPLACEMENT)).split('\n').length;
  throw refused(path, `has bytes that are not UTF-8 in line ${line}; save it as UTF-8`);
}

const BYTE_ORDER_MARK = '\uFEFF';
/** What a decoder writes in place of wrong bytes. */
const REPLACEMENT = '\uFFFD';

function refused(path: string, reason: string): ShardlabError {
  return new ShardlabError('IO', `${path} ${reason}`, { details: { file: path } });
}

/** The functions of node:fs by which folders are created. */
type FolderSystem = Pick<typeof nodeFs, 'mkdirSync' | 'statSync'>;

/**
 * Creates a folder and its missing parents one by one, because Node's recursive mkdir never returns for a folder below /proc.
 * Throws: errors of mkdirSync.
 */
export function makeFolder(path: string, fs: FolderSystem = nodeFs): void {
  if (isFolder(path, fs)) return;
  makeFolder(dirname(path), fs);
  try {
    fs.mkdirSync(path);
  } catch (error) {
    // Another process may have created the folder meanwhile.
    if (!isFolder(path, fs)) throw error;
  }
}

/**
 * Runs `work`, which may create the folder `path`, and then removes the folder. Throws: the error of `work`, even if the folder
 * cannot be removed then; else errors of rmSync.
 */
export async function withTemporaryFolder<Result>(
  path: string,
  work: () => Promise<Result>,
): Promise<Result> {
  const remove = (): void => rmSync(path, { recursive: true, force: true });
  let result: Result;
  try {
    result = await work();
  } catch (error) {
    try {
      remove();
    } catch {
      // What keeps the folder from being removed has also made the work fail, and the work's error says more.
    }
    throw error;
  }
  remove();
  return result;
}

/** The longest chain of links that is followed. Source: Linux's own limit (path_resolution(7)). */
const MOST_LINKS = 40;

/**
 * Returns the absolute path to which the symbolic link `path` leads, even if nothing is there; for another path, the path itself.
 * Links in a loop are not followed.
 */
export function linkTarget(path: string): string {
  let target = resolve(path);
  for (let links = 0; links < MOST_LINKS; links++) {
    try {
      target = resolve(realpathSync(dirname(target)), readlinkSync(target));
    } catch {
      return target; // No link is there, or its folder is missing; whoever uses the path reports what is wrong.
    }
  }
  return resolve(path);
}

/** Whether there is a folder at `path`. Throws: as `statIfThere` does. */
export function isFolder(path: string, fs: Pick<FolderSystem, 'statSync'> = nodeFs): boolean {
  return statIfThere(path, fs)?.isDirectory() === true;
}

/** Codes of errors for paths at which no file can be: through a file, in a loop of links, too long, or with a zero byte. */
const NOT_THERE = ['ENOENT', 'ENOTDIR', 'ELOOP', 'ENAMETOOLONG', 'ERR_INVALID_ARG_VALUE'];

/**
 * Returns what is at a path, or undefined if there is nothing or if no file can have this path. A link is followed.
 * Throws: errors of statSync, for example if a folder of the path may not be entered.
 */
export function statIfThere(path: string, fs: Pick<FolderSystem, 'statSync'> = nodeFs): Stats | undefined {
  try {
    return fs.statSync(path, { throwIfNoEntry: false });
  } catch (error) {
    if (NOT_THERE.includes((error as NodeJS.ErrnoException).code ?? '')) return undefined;
    throw error;
  }
}

function checkKind(path: string, descriptor: number, isAllowed: (stats: Stats) => boolean): number {
  const stats = fstatSync(descriptor);
  if (isAllowed(stats)) return descriptor;
  closeSync(descriptor);
  throw refused(path, `is ${kindOf(stats)}, not a regular file; name a file`);
}

function kindOf(stats: Stats): string {
  if (stats.isDirectory()) return 'a directory';
  if (stats.isFIFO()) return 'a FIFO';
  return stats.isSocket() ? 'a socket' : 'a device';
}
