import { conditionOf } from './condition';

/** An `if` of a script whose `fi` has not come yet. */
interface Open {
  /** Variables and files that its branches set: those of earlier branches, and those of the current branch. */
  before: ReadonlySet<string>;
  readonly now: Set<string>;
  /** Whether the words that follow are the condition of a branch. */
  isCondition: boolean;
  /** Whether the current branch may run. */
  mayRun: boolean;
  /** Whether an earlier branch runs, so that no other branch does. */
  isDecided: boolean;
  /** Whether the whole `if` is in a branch that does not run. */
  readonly isSkipped: boolean;
  /** The number of commands of the current condition, and whether the first of them holds; undefined: not known. */
  numCommands: number;
  holds: boolean | undefined;
}

/**
 * Follows the branches of a script's `if`s. A condition that compares known values decides which branch is read. Other conditions are
 * not evaluated: each branch is read, and a variable that several branches set has the value that the first of them gives it.
 */
export class Branches {
  readonly #open: Open[] = [];

  /** Follows the words `if`, `then`, `elif`, `else` and `fi` of a script. */
  enter(keyword: string): void {
    const inner = this.#open.at(-1);
    if (keyword === 'if') this.#begin();
    if (inner === undefined) return;
    if (keyword === '!' && inner.isCondition) inner.numCommands += 1;
    if (keyword === 'then') settle(inner);
    if (keyword === 'elif' || keyword === 'else') {
      inner.before = new Set([...inner.before, ...inner.now]);
      inner.now.clear();
      inner.isCondition = keyword === 'elif';
      inner.mayRun = !inner.isDecided;
      inner.numCommands = 0;
      inner.holds = undefined;
    }
    if (keyword === 'fi') {
      this.#open.pop();
      for (const name of [...inner.before, ...inner.now]) this.#open.at(-1)?.now.add(name);
    }
  }

  #begin(): void {
    const first = { before: new Set<string>(), now: new Set<string>(), isCondition: true, mayRun: true };
    this.#open.push({
      ...first,
      isDecided: false,
      isSkipped: !this.isRead,
      numCommands: 0,
      holds: undefined,
    });
  }

  /** Whether the commands that follow may run. */
  get isRead(): boolean {
    const inner = this.#open.at(-1);
    return inner === undefined || (inner.mayRun && !inner.isSkipped);
  }

  /** Takes a command; if it is a condition with a known result, returns whether the condition holds. */
  decide(words: readonly string[]): boolean | undefined {
    const inner = this.#open.at(-1);
    if (inner?.isCondition !== true) return undefined;
    inner.numCommands += 1;
    inner.holds = inner.numCommands === 1 ? conditionOf(words) : undefined;
    return inner.holds;
  }

  /** Whether an earlier branch has set the variable. If not, notes that this branch sets the variable. */
  isSetBefore(name: string): boolean {
    if (this.#open.some(({ before }) => before.has(name))) return true;
    this.#open.at(-1)?.now.add(name);
    return false;
  }
}

/** Ends a condition: a branch whose condition does not hold is not read, and nothing after a branch whose condition holds. */
function settle(inner: Open): void {
  inner.isCondition = false;
  if (inner.holds === false) inner.mayRun = false;
  if (inner.holds === true && inner.mayRun) inner.isDecided = true;
}
