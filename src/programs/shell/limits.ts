import { ConfigError } from '../../core';

/** The most of each part that is read. No real script or config has as many; a larger number would take minutes. */
const MOST = {
  /** Words of a command; one that launches a training has fewer than 200. */
  words: 2000,
  /** Keys of a file, or arguments of the calls in a script of Python. */
  settings: 2000,
  /** Commands that train, or calls of Python that are read. */
  launches: 200,
  'here-documents': 500,
  /** Characters for which the variables in one word or file of a script stand. */
  characters: 2 ** 20,
} as const;

/** The kinds of parts that are counted. */
export type Counted = keyof typeof MOST;

/** Throws: CONFIG if something has more parts than are read; `whose` begins the message: 'run.sh:3: a command'. */
export function requireFew(count: number, what: Counted, whose: string, file: string): void {
  if (count <= MOST[what]) return;
  throw new ConfigError(`${whose} of ${count} ${what}; at most ${MOST[what]} are read`, { file });
}
