/** Joins words: 'a', 'a and b', 'a, b and c'; '' without words. */
export function listed(words: readonly string[], conjunction: 'and' | 'or' = 'and'): string {
  if (words.length <= 1) return words[0] ?? '';
  return `${words.slice(0, -1).join(', ')} ${conjunction} ${words.at(-1)}`;
}

const MOST_NAMES = 4;

/** Joins the first names, at most 4, and says how many names are left: 'a, b, c, d and 3 more'. */
export function firstNames(names: readonly string[]): string {
  const left = names.length - MOST_NAMES;
  return names.slice(0, MOST_NAMES).join(', ') + (left > 0 ? ` and ${left} more` : '');
}
