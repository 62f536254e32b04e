import { SHARED_NAMES } from '../../src/cell';
import type { NameKind, Outline } from './outline';
import type { AbsenceCause, Declaration } from './protocol';

/** The last declaration of a name in a namespace. */
interface Home {
  /** The module specifier with which cells import the name. */
  readonly specifier: string;
  readonly kind: NameKind;
  /** The text of a variable's type, if a file exports it. */
  readonly type: string | undefined;
  /** Number of the cell that declared the name; undefined for a library's name. */
  readonly cell: number | undefined;
}

/** Messages about a name that is missing although a cell declares it. */
const ABSENCES: Readonly<Record<AbsenceCause, (cell: number) => string>> = {
  unchecked: (cell) =>
    `Cell ${cell} would have declared the name, but the cell failed its type check: fix the cell and run it again.`,
  'in no rank': (cell) =>
    `Cell ${cell} would have declared the name, but no rank has run the cell: run it again.`,
  interrupted: (cell) =>
    `Cell ${cell} would have declared the name, but the cell was interrupted: run it again.`,
  'process ended': (cell) =>
    `Cell ${cell} declared the name, but the process that held the value has ended: run that cell again.`,
};

/**
 * The names of one namespace.
 *
 * [Note: prelude] Each cell is a separate module. The compiler adds declarations to the module, so that the module has the
 * names of earlier cells: `declare let x: typeof import('./cell3.mjs').x` for variables, so that `const` is enforced and `let`
 * may be assigned, and an import for names that may also be types. If the variable's type is a class of a package, the
 * declaration names the class instead: `declare const run: import("/…/run.js").Run`. Then the checker need not check the
 * earlier cell again. Only names that the cell mentions are declared, so a cell takes the same time after 10 or after 200
 * cells. None of these declarations reach the JavaScript.
 */
export class Scope {
  readonly #homes = new Map<string, Home>();
  /** The messages about names that are missing although a cell declares them; the key is the name. */
  readonly #absences = new Map<string, string>();

  /** Stores the file and the types of the names that a cell declares. */
  declare(specifier: string, { names, types, cell }: Pick<Declaration, 'names' | 'types' | 'cell'>): void {
    for (const [name, kind] of Object.entries(names)) {
      this.#homes.set(name, { specifier, kind, type: types[name], cell });
      this.#absences.delete(name);
    }
  }

  miss(names: readonly string[], cell: number, cause: AbsenceCause): void {
    for (const name of names) this.#absences.set(name, ABSENCES[cause](cell));
  }

  /** Returns the message that says why a name is missing; undefined if there is no such message. */
  absenceOf(name: string): string | undefined {
    return this.#absences.get(name);
  }

  /** Declares all exports of a module, except names that cells have declared. */
  declareExports(specifier: string, names: readonly string[]): void {
    for (const name of names) {
      if (!this.#homes.has(name))
        this.#homes.set(name, { specifier, kind: 'value-and-type', type: undefined, cell: undefined });
    }
  }

  /** Forgets all names, because the process that held them has ended. */
  clear(): void {
    for (const [name, { cell }] of this.#homes)
      if (cell !== undefined) this.miss([name], cell, 'process ended');
    this.#homes.clear();
  }

  has(name: string): boolean {
    return this.#homes.has(name);
  }

  /** Returns the names that cells have declared, with the numbers of these cells. */
  cells(): ReadonlyMap<string, number> {
    const cells = [...this.#homes].flatMap(([name, { cell }]) =>
      cell === undefined ? [] : [[name, cell] as const],
    );
    return new Map(cells);
  }

  /** Whether a name belongs to a library: every rank has the name, and no cell declared it. */
  isLibrary(name: string): boolean {
    const home = this.#homes.get(name);
    return home !== undefined && home.cell === undefined;
  }

  /** Returns the names of this cell's and earlier cells' variables that the cell mentions and that are globals too. */
  sharedNames({ declared, mentioned }: Outline): ReadonlySet<string> {
    const isOwn = (name: string): boolean => declared.has(name) || this.#homes.get(name)?.cell !== undefined;
    return new Set([...mentioned].filter((name) => SHARED_NAMES.has(name) && isOwn(name)));
  }

  /**
   * Returns declarations, in one line, of the names that a cell mentions but does not declare; if `all` is true, of every name.
   */
  prelude({ declared, mentioned }: Outline, all = false): string {
    const wanted = all ? [...this.#homes.keys()] : [...mentioned];
    return wanted
      .filter((name) => !declared.has(name))
      .map((name) => this.#declaration(name))
      .join('');
  }

  /** Returns the cells' variables that a cell mentions, as members of an interface; if `all` is true, all variables of cells. */
  members({ mentioned }: Pick<Outline, 'mentioned'>, all = false): string {
    const wanted = all ? [...this.#homes.keys()] : [...mentioned];
    return wanted
      .map((name) => {
        const home = this.#homes.get(name);
        if (home?.cell === undefined || home.kind === 'type') return '';
        return `${name}: ${typeTextOf(name, home)};`;
      })
      .join('');
  }

  #declaration(name: string): string {
    const home = this.#homes.get(name);
    if (home === undefined) return '';
    switch (home.kind) {
      case 'const':
      case 'let':
        return `declare ${home.kind} ${name}: ${typeTextOf(name, home)};`;
      case 'type':
      case 'value-and-type':
        return `import { ${name} } from ${JSON.stringify(home.specifier)};`;
      default:
        return home.kind satisfies never;
    }
  }
}

function typeTextOf(name: string, { specifier, type }: Home): string {
  return type ?? `typeof import(${JSON.stringify(specifier)}).${name}`;
}
