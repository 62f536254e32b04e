/** One executed cell: session, number, source. */
export type HistoryEntry = readonly [session: number, line: number, source: string];

/** The content of a history_request. Source: Jupyter protocol, history_request */
export interface HistoryRequest {
  readonly hist_access_type?: unknown;
  readonly n?: unknown;
  readonly start?: unknown;
  readonly stop?: unknown;
  readonly pattern?: unknown;
  readonly unique?: unknown;
  readonly output?: unknown;
}

/** The sources of this kernel's cells. */
export class History {
  readonly #entries: HistoryEntry[] = [];

  add(line: number, source: string): void {
    this.#entries.push([0, line, source]);
  }

  /** The requested entries; with `output` each source is a pair with null as output. */
  find(request: HistoryRequest): unknown[] {
    const found = this.#select(request);
    if (request.output !== true) return found;
    return found.map(([session, line, source]) => [session, line, [source, null]]);
  }

  #select({ hist_access_type: access, n, start, stop, pattern, unique }: HistoryRequest): HistoryEntry[] {
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
