import type { NameKind, Outline } from './outline';
import type { AbsenceCause, Declaration } from './protocol';

/** Where a name of a namespace was declared last. */
interface Home {
  /** Module specifier of its file, as cells import it. */
  readonly specifier: string;
  readonly kind: NameKind;
  /** Number of the cell that declared it; undefined where a library did. */
  readonly cell: number | undefined;
}

/** What to say of a name that a cell declares and that is not there. */
const ABSENCES: Readonly<Record<AbsenceCause, (cell: number) => string>> = {
  unchecked: (cell) =>
    `Cell ${cell} would have declared it, but it failed its type check: run it again after mending.`,
  'failed in ranks': (cell) =>
    `Cell ${cell} would have declared it, but it failed in the ranks: run it again after mending.`,
  interrupted: (cell) => `Cell ${cell} would have declared it, but it was interrupted: run it again.`,
  'process ended': (cell) =>
    `Cell ${cell} declared it, but the process that held it has ended: run that cell again.`,
};

/**
 * The names of one namespace.
 *
 * [Note: prelude] A cell is a module of its own. Names of earlier cells reach it by declarations that are written beside its
 * text: `declare let x: typeof import('./cell3.mjs').x` for variables, so that `const` is enforced and `let` may be assigned,
 * and an import for what may also be a type. Only names that the cell mentions are declared, so a cell costs the same
 * whether 10 or 200 came before. None of it reaches the JavaScript.
 */
export class Scope {
  readonly #homes = new Map<string, Home>();
  /** Names that are not there though a cell declares them, with what to say of that. */
  readonly #absences = new Map<string, string>();

  /** Makes the declared names of a cell those of its file. */
  declare(specifier: string, { names, cell }: Pick<Declaration, 'names' | 'cell'>): void {
    for (const [name, kind] of Object.entries(names)) {
      this.#homes.set(name, { specifier, kind, cell });
      this.#absences.delete(name);
    }
  }

  miss(names: readonly string[], cell: number, cause: AbsenceCause): void {
    for (const name of names) this.#absences.set(name, ABSENCES[cause](cell));
  }

  /** Why a name is not there; undefined where no cell declares it. */
  absenceOf(name: string): string | undefined {
    return this.#absences.get(name);
  }

  /** Offers all of a module's exports as names. */
  declareExports(specifier: string, names: readonly string[]): void {
    for (const name of names) {
      if (!this.#homes.has(name))
        this.#homes.set(name, { specifier, kind: 'value-and-type', cell: undefined });
    }
  }

  /** Forgets all names: the process that held them has ended. */
  clear(): void {
    for (const [name, { cell }] of this.#homes)
      if (cell !== undefined) this.miss([name], cell, 'process ended');
    this.#homes.clear();
  }

  has(name: string): boolean {
    return this.#homes.has(name);
  }

  /** One line of declarations for the names that a cell mentions and does not declare itself; `all` declares every name. */
  prelude({ declared, mentioned }: Outline, all = false): string {
    const wanted = all ? [...this.#homes.keys()] : [...mentioned];
    return wanted
      .filter((name) => !declared.has(name))
      .map((name) => this.#declaration(name))
      .join('');
  }

  #declaration(name: string): string {
    const home = this.#homes.get(name);
    if (home === undefined) return '';
    const module = JSON.stringify(home.specifier);
    switch (home.kind) {
      case 'const':
      case 'let':
        return `declare ${home.kind} ${name}: typeof import(${module}).${name};`;
      case 'type':
      case 'value-and-type':
        return `import { ${name} } from ${module};`;
      default:
        return home.kind satisfies never;
    }
  }
}
