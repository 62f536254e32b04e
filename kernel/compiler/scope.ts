import type { NameKind, Outline } from './outline';

/** Where a name of a namespace was declared last. */
interface Home {
  /** Module specifier of its file, as cells import it. */
  readonly specifier: string;
  readonly kind: NameKind;
}

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

  /** Makes the declared names of a cell those of its file. */
  declare(specifier: string, declared: Readonly<Record<string, NameKind>>): void {
    for (const [name, kind] of Object.entries(declared)) this.#homes.set(name, { specifier, kind });
  }

  /** Offers all of a module's exports as names. */
  declareExports(specifier: string, names: readonly string[]): void {
    for (const name of names) {
      if (!this.#homes.has(name)) this.#homes.set(name, { specifier, kind: 'value-and-type' });
    }
  }

  clear(): void {
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
