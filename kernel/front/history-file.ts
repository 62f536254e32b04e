import { appendFile, mkdir, readFile, rename, stat, writeFile } from 'node:fs/promises';
import { homedir } from 'node:os';
import { dirname, join } from 'node:path';

/** A cell of any session, as a line of the file holds it. */
export interface StoredCell {
  /** Name of the session, which no other session has. */
  readonly session: string;
  readonly line: number;
  readonly source: string;
}

/** The newest cells that are read; older ones are forgotten. */
export const MOST_CELLS = 10_000;
/** A longer file is replaced by one with its newest cells. */
const MOST_BYTES = 20e6;
/** Longer cells are not stored. */
const LONGEST_SOURCE = 100_000;

/** Returns the file of the history; undefined if SHARDLAB_HISTORY=0 turns it off. Source: XDG Base Directory Specification */
export function historyPath(env: NodeJS.ProcessEnv): string | undefined {
  if (env.SHARDLAB_HISTORY === '0') return undefined;
  const state = env.XDG_STATE_HOME;
  const folder = state?.startsWith('/') === true ? state : join(env.HOME ?? homedir(), '.local', 'state');
  return join(folder, 'shardlab', 'history.jsonl');
}

/**
 * The cells of all sessions, one per line. Several kernels may append at once, because each line is written by one call. Lines
 * that are not cells are skipped. If the file cannot be read or written, the history is that of this session.
 */
export class HistoryFile {
  readonly #path: string | undefined;
  #writing: Promise<void> = Promise.resolve();

  /** Without a path, nothing is stored. */
  constructor(path: string | undefined) {
    this.#path = path;
  }

  /** Resolves when the cells are on the disk, or cannot be written. */
  append(cells: readonly StoredCell[]): Promise<void> {
    const stored = cells.filter(({ source }) => source.length <= LONGEST_SOURCE);
    this.#writing = this.#writing.then(() => this.#write(stored)).catch(() => undefined);
    return this.#writing;
  }

  /** Returns the newest cells, oldest first. */
  async read(): Promise<readonly StoredCell[]> {
    await this.#writing;
    if (this.#path === undefined) return [];
    const text = await readFile(this.#path, 'utf8').catch(() => '');
    return text.split('\n').flatMap(cellIn).slice(-MOST_CELLS);
  }

  async #write(cells: readonly StoredCell[]): Promise<void> {
    if (this.#path === undefined || cells.length === 0) return;
    await mkdir(dirname(this.#path), { recursive: true, mode: 0o700 });
    await appendFile(this.#path, linesOf(cells), { mode: 0o600 });
    if ((await stat(this.#path)).size > MOST_BYTES) await this.#shorten(this.#path);
  }

  async #shorten(path: string): Promise<void> {
    const text = await readFile(path, 'utf8');
    let bytes = 0;
    const kept = text
      .split('\n')
      .flatMap(cellIn)
      .slice(-MOST_CELLS)
      .reverse()
      .filter((cell) => {
        bytes += JSON.stringify(cell).length;
        return bytes < MOST_BYTES / 2;
      });
    const fresh = `${path}.${process.pid}`;
    await writeFile(fresh, linesOf(kept.reverse()), { mode: 0o600 });
    await rename(fresh, path);
  }
}

function linesOf(cells: readonly StoredCell[]): string {
  return cells.map((cell) => `${JSON.stringify(cell)}\n`).join('');
}

function cellIn(line: string): StoredCell[] {
  if (line === '') return [];
  try {
    const cell: Partial<StoredCell> | null = JSON.parse(line);
    const { session, line: number, source } = cell ?? {};
    const isCell = typeof session === 'string' && typeof number === 'number' && typeof source === 'string';
    return isCell ? [{ session, line: number, source }] : [];
  } catch {
    return [];
  }
}
