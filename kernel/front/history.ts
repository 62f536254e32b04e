import type { JsonObject } from './wire';

/** One executed cell: the session, the cell's number, and its source. */
export type HistoryEntry = readonly [session: number, line: number, source: string];

/** The sources of this kernel's cells. */
export class History {
  readonly #entries: HistoryEntry[] = [];

  add(line: number, source: string): void {
    this.#entries.push([0, line, source]);
  }

  /**
   * Returns the entries that a history_request asks for. If `output` is true, each source becomes the pair [source, null].
   * Source: Jupyter protocol, history_request
   */
  find(request: JsonObject): unknown[] {
    const entries = this.#select(request);
    if (request.output !== true) return entries;
    return entries.map(([session, line, source]) => [session, line, [source, null]]);
  }

  #select({ hist_access_type: access, n, start, stop, pattern, unique }: JsonObject): HistoryEntry[] {
    const last = typeof n === 'number' && n > 0 ? n : this.#entries.length;
    if (access === 'range') {
      const from = typeof start === 'number' ? start : 0;
      const to = typeof stop === 'number' ? stop : Number.POSITIVE_INFINITY;
      return this.#entries.filter(([, line]) => line >= from && line < to);
    }
    if (access !== 'search') return this.#entries.slice(-last);
    const glob = globPattern(typeof pattern === 'string' ? pattern : '*');
    const matching = this.#entries.filter(([, , source]) => glob.test(source));
    const kept =
      unique === true ? [...new Map(matching.map((entry) => [entry[2], entry])).values()] : matching;
    return kept.slice(-last);
  }
}

function globPattern(glob: string): RegExp {
  const escaped = glob.replace(/[.+^${}()|[\]\\]/g, '\\$&');
  return new RegExp(`^${escaped.replace(/\*/g, '[\\s\\S]*').replace(/\?/g, '[\\s\\S]')}$`);
}
