import type { Refusal } from './registry/program';
import { programs } from './registry/registry';
import { refused } from './rows/key-row';
import type { Dialect, Source } from './rows/meant';
import type { Word } from './shell/word';

/** Returns why a command is refused; null if it is not refused. */
export function refusalOf(words: readonly Word[]): Refusal | null {
  for (const { refuses } of programs()) {
    const refusal = refuses?.(words) ?? null;
    if (refusal !== null) return refusal;
  }
  return null;
}

/** Returns a source with one line, which says why a command is refused. */
export function refusedSource(words: readonly Word[], { words: start, why }: Refusal, file: string): Source {
  const key = start.join(' ');
  const value = words
    .slice(start.length)
    .map(({ text }) => text)
    .join(' ');
  const line = words[0]?.line ?? 1;
  const dialect: Dialect = { name: key, keys: { [key]: refused(why, () => false) } };
  return { dialect, entries: [{ file, line, key, path: [key], value }] };
}
