/** Returns the candidate whose spelling is nearest to `word`; undefined if no candidate is near. */
export function nearest(word: string, candidates: readonly string[]): string | undefined {
  if (word.length > LONGEST_WORD) return undefined;
  const limit = Math.max(2, Math.floor(word.length / 3));
  const plain = normalized(word);
  let best: { readonly name: string; readonly distance: number } | undefined;
  for (const name of candidates) {
    const candidate = normalized(name);
    if (Math.abs(candidate.length - plain.length) > limit) continue;
    const distance = editDistance(plain, candidate);
    // Words need two letters in common: 'ep' is not a misspelled 'tp'.
    const isAlike = distance <= Math.max(0, Math.max(word.length, name.length) - 2);
    if (distance <= limit && isAlike && (best === undefined || distance < best.distance))
      best = { name, distance };
  }
  return best?.name;
}

/** Longer words are no misspelled names, and comparing them takes long. */
const LONGEST_WORD = 60;

/** Returns a word in lower case without '_' and '-', so that 'weight_decay' is near 'weightDecay'. */
function normalized(word: string): string {
  return word.toLowerCase().replaceAll(/[-_]/g, '');
}

/** Source: Levenshtein 1966; stores only one row of the table. */
function editDistance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      const change = (row[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1);
      next.push(Math.min(change, (row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1));
    }
    row = next;
  }
  return row[b.length] ?? 0;
}
