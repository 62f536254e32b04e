import { join } from 'node:path';
import ts from 'typescript';
import { completenessOf, depthError, parse, rightImports, unlessTooDeep } from './cell-text';
import { describeDiagnostics } from './diagnostics';
import { completionsAt, inspectionAt, type ShownSource } from './editing';
import { replTransformer } from './emit';
import { type CheckedFiles, createCheckedFiles } from './language-service';
import type { ResolutionPlaces } from './module-resolution';
import { namedTypes } from './named-types';
import { type Outline, outlineOf } from './outline';
import type {
  Absence,
  CellSource,
  Compiled,
  CompilerCalls,
  Declaration,
  FailedCheck,
  Namespace,
  Position,
} from './protocol';
import { Scope } from './scope';
import { sentValues } from './sent-values';
import { sharedNamesTransformer } from './shared-names';
import { varNames } from './vars';

const RANK_MODULE = 'shardlab/rank';
const NOTEBOOK_PACKAGES = ['shardlab', 'tslab'];

/** Checks and compiles the cells of one notebook; see [Note: prelude] and [Note: cells as REPL code]. */
export class NotebookCompiler implements CompilerCalls {
  readonly #files: CheckedFiles;
  readonly #places: ResolutionPlaces;
  readonly #scopes: Readonly<Record<Namespace, Scope>> = { notebook: new Scope(), ranks: new Scope() };
  #modules = 0;
  #rankGlobalsKnown = false;

  /** `installation` is the folder of shardlab's package.json. Until `open` is called, it is also the notebook's folder. */
  constructor(installation: string) {
    this.#places = { installation, baseDir: installation, cellDir: join(installation, '__notebook') };
    this.#files = createCheckedFiles(this.#places);
  }

  /** Makes `baseDir` the notebook's folder. */
  open(baseDir: string): void {
    this.#places.baseDir = baseDir;
  }

  /**
   * Reads the libraries and compiles a small cell, so that the first cell finds the libraries in memory. This method does not
   * run completion, because a snapshot cannot contain the objects that completion leaves in memory.
   */
  warmUp(): void {
    const source = 'const warm: number[] = [1, 2].map((n) => n * n); console.log(warm);';
    this.compile({ source, namespace: 'notebook', cell: 0 });
    this.inspect({ source: 'parseInt', namespace: 'notebook', offset: 4 });
    this.isComplete('1');
  }

  compile(cellSource: CellSource): Compiled {
    const { source, cell } = cellSource;
    return unlessTooDeep(
      () => this.#compile(cellSource),
      () => {
        this.#files.drop(this.#pathOf(this.#modules));
        return { ok: false, error: depthError(source, nameOf(cell)), imports: undefined, missed: [] };
      },
    );
  }

  #compile(cellSource: CellSource): Compiled {
    const { source, namespace, cell } = cellSource;
    this.#learnRankGlobals(namespace);
    const outline = outlineOf(parse(source));
    const module = ++this.#modules;
    const path = this.#pathOf(module);
    const { declared, exported, loadsPackages } = outline;
    const exports = [...declared.keys()].filter((name) => !exported.has(name));
    const prelude = this.#scopes[namespace].prelude(outline);
    this.#declareVariables(namespace, outline);
    const text = `${source}\n;${prelude}export { ${exports.join(', ')} };`;
    this.#files.show(path, text);
    const program = this.#files.program();
    const file = this.#files.file(path);
    const diagnostics = errorsOf(program, file);
    if (diagnostics.length > 0) {
      this.#files.drop(path);
      return this.#failedCheck(cellSource, outline, diagnostics);
    }
    const shared = this.#scopes[namespace].sharedNames(outline);
    const js = emit(program, file, source, nameOf(cell), shared);
    const sent = namespace === 'notebook' ? sentValues(program, file) : {};
    this.#files.drop(path);
    const names = Object.fromEntries(declared);
    const types = namedTypes(program, file, outline);
    return {
      ok: true,
      js,
      declaration: { namespace, cell, module, text, names, types, loadsPackages, sent },
    };
  }

  commit(declaration: Declaration): void {
    const { namespace, module, text, loadsPackages, sent, cell } = declaration;
    // If the declaration comes from an earlier compiler process, its module keeps the number that it had there.
    this.#modules = Math.max(this.#modules, module);
    this.#files.keep(this.#pathOf(module), text, loadsPackages);
    this.#scopes[namespace].declare(`./${moduleName(module)}.mjs`, declaration);
    const names = Object.keys(sent);
    if (names.length === 0) return;
    const types = names.map((name) => `export declare let ${name}: ${sent[name]};`).join('\n');
    this.#files.keep(join(this.#places.cellDir, `${sentName(module)}.mts`), types, false);
    this.#scopes.ranks.declare(`./${sentName(module)}.mjs`, {
      cell,
      names: Object.fromEntries(names.map((name) => [name, 'let'])),
      types: {},
    });
  }

  /**
   * Declares the ranks' variables that a notebook's cell mentions, for job.get and for the scopes of functions that ranks run.
   */
  #declareVariables(namespace: Namespace, outline: Pick<Outline, 'mentioned'>, all = false): void {
    const members = namespace === 'notebook' ? this.#scopes.ranks.members(outline, all) : '';
    this.#files.declareVariables(
      members === '' ? '' : `declare global { interface ShardlabRankVariables { ${members} } }\nexport {};`,
    );
  }

  miss({ namespace, cell, names, cause }: Absence): void {
    this.#scopes[namespace].miss(names, cell, cause);
  }

  complete(at: Position): ReturnType<CompilerCalls['complete']> {
    const { offset } = at;
    return unlessTooDeep(
      () => completionsAt(this.#files, this.#show(at, true), offset),
      () => ({ matches: [], kinds: [], start: offset, end: offset }),
    );
  }

  inspect(at: Position): ReturnType<CompilerCalls['inspect']> {
    return unlessTooDeep(
      () => inspectionAt(this.#files, this.#show(at, false), at.offset),
      () => undefined,
    );
  }

  isComplete(source: string): ReturnType<CompilerCalls['isComplete']> {
    return unlessTooDeep(
      () => completenessOf(source),
      () => ({ status: 'complete' }),
    );
  }

  reset(namespace: Namespace): void {
    this.#scopes[namespace].clear();
    this.#rankGlobalsKnown &&= namespace !== 'ranks';
  }

  #failedCheck(cellSource: CellSource, outline: Outline, diagnostics: readonly ts.Diagnostic[]): FailedCheck {
    const { source, namespace, cell } = cellSource;
    const adviceFor = (unknown: string): string | undefined =>
      this.#scopes[namespace].absenceOf(unknown) ?? this.#elsewhere(unknown, namespace);
    const wasDeclared = (known: string): boolean => this.#scopes[namespace].has(known);
    const error = describeDiagnostics(diagnostics, { source, name: nameOf(cell), adviceFor, wasDeclared });
    const text = rightImports(source, diagnostics);
    const compiled = text === undefined ? undefined : this.compile({ ...cellSource, source: text });
    // The check of the imports alone may find an error that a syntax error elsewhere in the cell has hidden.
    const imports = compiled?.ok === false ? compiled.imports : compiled;
    const kept = new Set(Object.keys(imports?.declaration.names ?? {}));
    return {
      ok: false,
      error,
      imports,
      missed: [...outline.declared.keys()].filter((name) => !kept.has(name)),
    };
  }

  #pathOf(module: number): string {
    return join(this.#places.cellDir, `${moduleName(module)}.mts`);
  }

  /** Returns advice about a name that this namespace lacks and the other namespace has; undefined for other names. */
  #elsewhere(name: string, namespace: Namespace): string | undefined {
    if (!this.#scopes[namespace === 'notebook' ? 'ranks' : 'notebook'].has(name)) return undefined;
    if (namespace === 'notebook' && this.#scopes.ranks.isLibrary(name))
      return `Ranks have ${name}: begin the cell with %%ranks, or, in a function that ranks run, take ${name} from the scope, as in loss: (output, batch, { ${name} }) => ….`;
    return namespace === 'notebook'
      ? `Ranks have ${name}: begin the cell with %%ranks to use ${name} there, or read its value: await job.get('${name}'); a function that ranks run takes ${name} from the scope: ({ ${name} }) => ….`
      : `The notebook has ${name}, but ranks do not: send its value with await job.put({ ${name} }).`;
  }

  #show({ source, namespace }: Position, all: boolean): ShownSource {
    this.#learnRankGlobals(namespace);
    const outline = outlineOf(parse(source));
    const prelude = `${this.#scopes[namespace].prelude(outline, all)}\n`;
    this.#declareVariables(namespace, outline, all);
    const path = join(this.#places.cellDir, '__scratch.mts');
    this.#files.show(path, `${prelude}${source}\n;export {};`);
    return { path, source, shift: prelude.length };
  }

  /** Reads the types of the packages that notebooks of shardlab use, so that the first cell finds these types in memory. */
  readPackages(): void {
    this.#learnRankGlobals('ranks');
    const path = join(this.#places.cellDir, '__packages.mts');
    this.#files.keep(path, NOTEBOOK_PACKAGES.map((name) => `import '${name}';`).join('\n'), true);
  }

  #learnRankGlobals(namespace: Namespace): void {
    if (namespace !== 'ranks' || this.#rankGlobalsKnown) return;
    const path = join(this.#places.cellDir, '__rank_globals.mts');
    const text = `import * as everything from '${RANK_MODULE}';\nexport { everything };`;
    this.#files.show(path, text);
    const checker = this.#files.program().getTypeChecker();
    const declaration = this.#files.file(path).statements.find(ts.isImportDeclaration);
    const module = declaration && checker.getSymbolAtLocation(declaration.moduleSpecifier);
    if (module === undefined) {
      this.#files.drop(path);
      return;
    }
    this.#files.keep(path, text, true);
    const names = checker.getExportsOfModule(module).map((symbol) => symbol.name);
    this.#scopes.ranks.declareExports(RANK_MODULE, names);
    this.#rankGlobalsKnown = true;
  }
}

function nameOf(cell: number): string {
  return `In[${cell}]`;
}

function sentName(module: number): string {
  return `__sent${module}`;
}

function moduleName(module: number): string {
  return `__cell${module}`;
}

function errorsOf(program: ts.Program, file: ts.SourceFile): readonly ts.Diagnostic[] {
  const syntactic = program.getSyntacticDiagnostics(file);
  if (syntactic.length > 0) return syntactic;
  return program
    .getSemanticDiagnostics(file)
    .filter(({ category, code }) => category === ts.DiagnosticCategory.Error && !isImplicitAny(code))
    .filter((diagnostic) => !isUnassignedVar(diagnostic, file));
}

/** Whether an error only reports that a `var` may have no value yet, as JavaScript allows; TS2454 is about `let` too. */
function isUnassignedVar({ code, start = 0, length = 0 }: ts.Diagnostic, file: ts.SourceFile): boolean {
  return code === 2454 && varNames(file).includes(file.text.slice(start, start + length));
}

/** Whether an error only reports a missing annotation. TS7041 is about `this`, so it remains an error. */
function isImplicitAny(code: number): boolean {
  return code >= 7000 && code < 8000 && code !== 7041;
}

/** Returns the JavaScript of a checked file, with a source map that refers only to the cell's source. */
function emit(
  program: ts.Program,
  file: ts.SourceFile,
  source: string,
  name: string,
  shared: ReadonlySet<string>,
): string {
  let js = '';
  let map = '{}';
  const write: ts.WriteFileCallback = (path, text) => {
    if (path.endsWith('.map')) map = text;
    else js = text;
  };
  const after = [replTransformer(source.length)];
  if (shared.size > 0) after.unshift(sharedNamesTransformer(program.getTypeChecker(), file, shared));
  program.emit(file, write, undefined, false, { after });
  const payload = JSON.stringify({ ...JSON.parse(map), sources: [name], sourcesContent: [source] });
  const inlined = Buffer.from(payload).toString('base64');
  const code = js.replace(/\n?\/\/# sourceMappingURL=.*\s*$/, '').replace(/^export \{\};$/m, '');
  return `${code}\n//# sourceMappingURL=data:application/json;base64,${inlined}`;
}
