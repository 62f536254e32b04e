import { type ErrorCode, type ErrorJson, ShardlabError } from '../../../core';
import * as tf from '../../../core/tf';
import type { Engine } from '../../../engine';
import type { ProcessGroup } from '../../../wire';

/** A rank's error as JSON, so that it can be sent; null if the rank succeeded. */
export type RankFailure = ErrorJson | null;

/** A group of ranks that act together, and this rank's engine. */
export interface Ranks {
  readonly engine: Engine;
  readonly group: ProcessGroup;
}

const BYTES_PER_WORD = 4;
const ABSENCES: readonly ErrorCode[] = ['COLLECTIVE_MISMATCH', 'COLLECTIVE_MISSING'];

/**
 * Returns all ranks' values, in rank order, on every rank. Values are plain JSON; `name` is the function that the user called.
 * Throws: COLLECTIVE_MISMATCH or COLLECTIVE_MISSING, with this name, if some rank did not call the function.
 */
export function exchange<T>(ranks: Ranks, name: string, value: T): T[] {
  const text = Buffer.from(JSON.stringify(value));
  const words = new Int32Array(1 + Math.ceil(text.length / BYTES_PER_WORD));
  words[0] = text.length;
  new Uint8Array(words.buffer, BYTES_PER_WORD).set(text);
  const gathered = together(name, () => gatherWords(ranks, words, [words.length], name));
  // Every rank sent JSON of the same type.
  return messagesOf(gathered).map((message) => JSON.parse(message) as T);
}

/** Gathers `words` from every rank; returns the words of all ranks, in rank order. */
export function gatherWords(
  { engine, group }: Ranks,
  words: Int32Array,
  shape: number[],
  module: string,
): Int32Array {
  const own = engine.tagged({ cause: 'comm', module: '' }, () => tf.tensor(words, shape, 'int32'));
  try {
    const gathered = group.allGather(own, { cause: 'control', module }).wait();
    try {
      return gathered.dataSync<'int32'>().slice();
    } finally {
      gathered.dispose();
    }
  } finally {
    own.dispose();
  }
}

/** Runs a collective. If some rank does not call the collective, the error names the user's function and says what to do. */
export function together<T>(name: string, collective: () => T): T {
  try {
    return collective();
  } catch (error) {
    if (!(error instanceof ShardlabError) || !ABSENCES.includes(error.code)) throw error;
    throw new ShardlabError(
      error.code,
      `${error.message} ${name} is a collective: call it on every rank, outside of \`if (rank === 0)\`; ` +
        'only code that uses the result can be inside the `if`.',
      { cause: error, rank: error.rank, details: { ...error.details, function: name } },
    );
  }
}

/** If some rank has an error, throws the error of the lowest such rank on every rank. */
export function agree(ranks: Ranks, name: string, outcome: RankFailure): void {
  requireSuccess(ranks, exchange(ranks, name, outcome));
}

/** If some of the ranks' outcomes is an error, throws the first error. */
export function requireSuccess(ranks: Ranks, outcomes: readonly RankFailure[]): void {
  const rank = outcomes.findIndex((each) => each !== null);
  const error = outcomes[rank];
  if (error === undefined || error === null) return;
  throw new ShardlabError(error.code, `[rank ${ranks.group.ranks[rank]}] ${error.message}`, {
    rank: ranks.group.ranks[rank],
    details: error.details ?? {},
  });
}

function messagesOf(words: Int32Array): string[] {
  const messages: string[] = [];
  for (let at = 0; at < words.length; ) {
    const length = words[at] ?? 0;
    const start = BYTES_PER_WORD * (at + 1);
    messages.push(Buffer.from(words.buffer, words.byteOffset + start, length).toString());
    at += 1 + Math.ceil(length / BYTES_PER_WORD);
  }
  return messages;
}
