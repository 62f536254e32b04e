import { ConfigError, rankNames, shown } from '../../core';

/** A selection of ranks: one number, several, '0-3', '0,2', '0,2-3', or 'all'. */
export type Selection = number | readonly number[] | string;

/**
 * Returns the ranks that a selection names, ascending, each once.
 * Throws: CONFIG when the selection cannot be parsed, is empty, or names a rank that the job does not have.
 */
export function parseSelection(selection: Selection, numRanks: number): number[] {
  const named =
    typeof selection === 'string'
      ? parseText(selection, numRanks)
      : typeof selection === 'number'
        ? [selection]
        : Array.isArray(selection)
          ? [...selection]
          : [];
  if (named.length === 0) throw unreadable(selection, numRanks);
  for (const rank of named) {
    if (!Number.isInteger(rank)) throw unreadable(selection, numRanks);
    if (rank < 0 || rank >= numRanks) {
      throw new ConfigError(
        `rank ${rank} was selected, but the job has ${rankNames(firstRanks(numRanks))}; select some of those`,
        { selection, numRanks },
      );
    }
  }
  return [...new Set(named)].sort((a, b) => a - b);
}

function parseText(text: string, numRanks: number): number[] {
  const trimmed = text.trim();
  if (trimmed === 'all') return firstRanks(numRanks);
  return trimmed.split(',').flatMap((part) => {
    const match = /^\s*(\d+)\s*(?:-\s*(\d+)\s*)?$/.exec(part);
    if (match === null) throw unreadable(text, numRanks);
    const first = Number(match[1]);
    const last = match[2] === undefined ? first : Number(match[2]);
    if (last < first) throw unreadable(text, numRanks);
    // If the end of a range is too large, only the last rank is returned, so that a huge range makes no huge array.
    return last >= numRanks ? [last] : Array.from({ length: last - first + 1 }, (_, i) => first + i);
  });
}

function unreadable(selection: Selection, numRanks: number): ConfigError {
  return new ConfigError(
    `selection ${shown(selection)} names no ranks; write a number, '0-${numRanks - 1}', '0,${numRanks - 1}', [0] or 'all'`,
    { selection, numRanks },
  );
}

/** Returns ranks 0 to `count` - 1. */
export function firstRanks(count: number): number[] {
  return Array.from({ length: count }, (_, rank) => rank);
}
