import { ConfigError, classOf, isRecord, nearest, shortened } from '../core';

/**
 * Checks that options are given by name, and that all names are known. `what` is how the call is written, such as 'FSDP(model, …)'.
 * Throws: CONFIG for a value without names, as in `f(2)`, and with every unknown name and the most similar known name; snake_case gets its own message.
 */
export function requireKnownOptions(what: string, given: object, known: readonly string[]): void {
  requireNamed(what, given, () => known);
  const wrong = Object.keys(given).filter((name) => !known.includes(name));
  if (wrong.length === 0) return;
  const first = wrong.slice(0, MOST_WRONG).map((name) => ({ name, hint: hintOf(name, known) }));
  const lines = first.flatMap(({ hint }) => (hint === undefined ? [] : [`${what}${hint}`]));
  const others = first.flatMap(({ name, hint }) => (hint === undefined ? [shortened(name, 40)] : []));
  const more = wrong.length > first.length ? ` and ${wrong.length - first.length} more` : '';
  if (others.length > 0)
    lines.push(`${what} has no argument ${others.join(', ')}${more}; choose one of ${known.join(', ')}`);
  throw new ConfigError(lines.join('\n'), { unknown: first.map(({ name }) => shortened(name)) });
}

/** Throws: CONFIG unless options are given by name, as { lr: 0.001 }; `known` returns the names for the message. */
export function requireNamed(what: string, given: unknown, known: () => readonly string[]): void {
  if (isRecord(given)) return;
  throw new ConfigError(
    `${what} takes options by name, not ${classOf(given)}; the options are ${known().join(', ')}`,
  );
}

/** The number of unknown names that one message lists. */
const MOST_WRONG = 5;

/** Returns what to write in place of an unknown name; undefined if no known name is similar. */
function hintOf(name: string, known: readonly string[]): string | undefined {
  const spelled = camelCase(name);
  if (spelled !== name && known.includes(spelled)) return `: ${name} is written ${spelled} here`;
  const near = nearest(name, known);
  return near === undefined ? undefined : ` has no argument ${name}; did you mean ${near}?`;
}

/** Returns 'autoWrapPolicy' for 'auto_wrap_policy'. */
export function camelCase(name: string): string {
  return name.replaceAll(/(?<=[a-z0-9])_([a-z0-9])/g, (_match, letter: string) => letter.toUpperCase());
}

/** Returns a word in lower case, without '-', '_' and blanks. */
export function spelled(word: string): string {
  return word.toLowerCase().replaceAll(/[-_ ]/g, '');
}
