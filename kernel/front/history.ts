import { randomUUID } from 'node:crypto';
import { HistoryFile, type StoredCell } from './history-file';
import type { JsonObject } from './wire';

/** One executed cell: the session's number (0: this kernel's), the cell's number, and its source. */
export type HistoryEntry = readonly [session: number, line: number, source: string];

/** The sources of this kernel's cells and, in a file, of those of earlier kernels. */
export class History {
  readonly #file: HistoryFile;
  readonly #session = randomUUID();
  readonly #entries: HistoryEntry[] = [];
  /** Cells that are not in the file yet. */
  #unsaved: StoredCell[] = [];

  constructor(file = new HistoryFile(undefined)) {
    this.#file = file;
  }

  add(line: number, source: string): void {
    this.#entries.push([0, line, source]);
    this.#unsaved.push({ session: this.#session, line, source });
  }

  /** Writes new cells into the file; call it when a cell's reply has been sent, so that no cell waits for the disk. */
  save(): Promise<void> {
    const cells = this.#unsaved;
    this.#unsaved = [];
    return this.#file.append(cells);
  }

  get ofThisSession(): readonly HistoryEntry[] {
    return this.#entries;
  }

  /** Returns the newest cells of all sessions, oldest first. */
  async newest(count: number): Promise<readonly HistoryEntry[]> {
    return count === 0 ? [] : [...(await this.#earlier()), ...this.#entries].slice(-count);
  }

  /**
   * Returns the entries that a history_request asks for. If `output` is true, each source becomes the pair [source, null].
   * Source: Jupyter protocol, history_request
   */
  async find(request: JsonObject): Promise<unknown[]> {
    const entries = await this.#select(request);
    if (request.output !== true) return [...entries];
    return entries.map(([session, line, source]) => [session, line, [source, null]]);
  }

  async #select(request: JsonObject): Promise<readonly HistoryEntry[]> {
    const { hist_access_type: access, n, pattern, unique } = request;
    if (access === 'range') return this.#range(request);
    const all = [...(await this.#earlier()), ...this.#entries];
    const last = typeof n === 'number' && n > 0 ? n : all.length;
    if (access !== 'search') return all.slice(-last);
    const glob = globPattern(typeof pattern === 'string' ? pattern : '*');
    const matching = all.filter(([, , source]) => glob.test(source));
    const kept =
      unique === true ? [...new Map(matching.map((entry) => [entry[2], entry])).values()] : matching;
    return kept.slice(-last);
  }

  /** The cells of one session: 0 is this one, -1 the session before it, and 1 the first one in the file. */
  async #range({ session, start, stop }: JsonObject): Promise<readonly HistoryEntry[]> {
    const number = typeof session === 'number' ? session : 0;
    const from = typeof start === 'number' ? start : 0;
    const to = typeof stop === 'number' ? stop : Number.POSITIVE_INFINITY;
    const entries = number === 0 ? this.#entries : await this.#earlierSession(number);
    return entries.filter(([, line]) => line >= from && line < to);
  }

  async #earlierSession(number: number): Promise<readonly HistoryEntry[]> {
    const earlier = await this.#earlier();
    const sessions = earlier.reduce((highest, [session]) => Math.max(highest, session), 0);
    const absolute = number > 0 ? number : sessions + 1 + number;
    return earlier.filter(([session]) => session === absolute);
  }

  /** Returns the cells of other sessions. Sessions count from 1, in the order of their first cells. */
  async #earlier(): Promise<readonly HistoryEntry[]> {
    const numbers = new Map<string, number>();
    const cells = (await this.#file.read()).filter(({ session }) => session !== this.#session);
    for (const { session } of cells) if (!numbers.has(session)) numbers.set(session, numbers.size + 1);
    return cells
      .map(({ session, line, source }): HistoryEntry => [numbers.get(session) ?? 0, line, source])
      .sort(([a], [b]) => a - b);
  }
}

function globPattern(glob: string): RegExp {
  const escaped = glob.replace(/[.+^${}()|[\]\\]/g, '\\$&');
  return new RegExp(`^${escaped.replace(/\*/g, '[\\s\\S]*').replace(/\?/g, '[\\s\\S]')}$`);
}
