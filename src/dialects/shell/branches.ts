/**
 * Finds variables that several branches of an `if` set. Conditions are not evaluated, so such a variable has the value that the
 * first of these branches gives it.
 */
export class Branches {
  readonly #open: { before: ReadonlySet<string>; readonly now: Set<string> }[] = [];

  /** Follows the words `if`, `elif`, `else` and `fi` of a script. */
  enter(keyword: string): void {
    const inner = this.#open.at(-1);
    if (keyword === 'if') this.#open.push({ before: new Set(), now: new Set() });
    if (inner === undefined) return;
    if (keyword === 'elif' || keyword === 'else') {
      inner.before = new Set([...inner.before, ...inner.now]);
      inner.now.clear();
    }
    if (keyword === 'fi') {
      this.#open.pop();
      for (const name of [...inner.before, ...inner.now]) this.#open.at(-1)?.now.add(name);
    }
  }

  /** Whether an earlier branch has set the variable. If not, notes that this branch sets the variable. */
  isSetBefore(name: string): boolean {
    if (this.#open.some(({ before }) => before.has(name))) return true;
    this.#open.at(-1)?.now.add(name);
    return false;
  }
}
