import { rankNames } from '../../core';
import type { RankEvent } from './messages';

/**
 * Writes the lines of a run's ranks. If several ranks wrote the same line, it is written once. If not all ranks wrote a line,
 * the names of the ranks that wrote it come before the line.
 */
export class FoldedLines {
  readonly #write: (line: string) => void;
  readonly #ranks = new Map<string, Set<number>>();
  readonly #open = new Map<number, string>();

  /** By default, `write` writes to this process's stderr, which a notebook shows under the cell. */
  constructor(write = (line: string): void => void process.stderr.write(line)) {
    this.#write = write;
  }

  add(event: RankEvent): void {
    if (event.kind !== 'stream' || event.name !== 'stderr') return;
    const lines = `${this.#open.get(event.rank) ?? ''}${event.text}`.split('\n');
    this.#open.set(event.rank, lines.pop() ?? '');
    for (const line of lines) this.#note(event.rank, line);
  }

  /** Writes all remaining lines, including unfinished ones. */
  end(numRanks: number): void {
    for (const [rank, text] of this.#open) if (text !== '') this.#note(rank, text);
    this.#open.clear();
    this.flush(numRanks);
  }

  /** Writes the lines since the last flush; `numRanks` ranks took part. */
  flush(numRanks: number): void {
    for (const [line, ranks] of this.#ranks) {
      if (line === '') continue;
      const who = ranks.size === numRanks ? '' : `${rankNames([...ranks].sort((a, b) => a - b))}: `;
      this.#write(`${who}${line}\n`);
    }
    this.#ranks.clear();
  }

  #note(rank: number, line: string): void {
    const ranks = this.#ranks.get(line) ?? new Set();
    this.#ranks.set(line, ranks.add(rank));
  }
}

/** Writes a warning to stderr, which a notebook shows under the cell. */
export function warnOnStderr(message: string): void {
  process.stderr.write(`warning: ${message}\n`);
}
