import { join } from 'node:path';
import ts from 'typescript';
import { completenessOf, depthError, parse, rightImports, unlessTooDeep } from './cell-text';
import { declaredNames } from './declared-names';
import { describeDiagnostics } from './diagnostics';
import { replTransformer } from './emit';
import {
  type CheckedFiles,
  createCheckedFiles,
  NOTEBOOK_DECLARATION,
  NOTEBOOK_NAMES,
} from './language-service';
import { type MagicCall, magicError, magicInRanks, type ReadCell, readLineMagics } from './line-magics';
import { timeitAround } from './magic-calls';
import type { ResolutionPlaces } from './module-resolution';
import { type Outline, outlineOf } from './outline';
import type {
  Absence,
  CellSource,
  Compiled,
  CompilerCalls,
  Completions,
  Declaration,
  FailedCheck,
  Inspection,
  Namespace,
  Position,
} from './protocol';
import { Scope } from './scope';
import { sharedNamesTransformer } from './shared-names';
import { varNames } from './vars';

/** A source in a file of the language service; the prelude comes before the source. */
export interface ShownSource {
  readonly path: string;
  readonly source: string;
  /** Length of the prelude in UTF-16 units. */
  readonly shift: number;
}

const WORD = /[\w$]/;

/** Returns the completions at the cursor. A member whose docstring has the tag @internal is typed, but it is not offered. */
function completionsAt({ service }: CheckedFiles, shown: ShownSource, offset: number): Completions {
  const { source, path, shift } = shown;
  const start = wordStart(source, offset);
  const word = source.slice(start, offset);
  const info = service.getCompletionsAtPosition(path, shift + offset, { includeSymbol: true });
  const entries = (info?.entries ?? [])
    .filter(({ name }) => name.startsWith(word) && !name.startsWith('__cell'))
    .filter(({ symbol }) => !info?.isMemberCompletion || !isInternal(symbol))
    .sort((a, b) => (a.sortText + a.name < b.sortText + b.name ? -1 : 1));
  return {
    matches: entries.map(({ name }) => name),
    kinds: entries.map(({ kind }) => kind),
    start,
    end: offset,
  };
}

function isInternal(symbol: ts.Symbol | undefined): boolean {
  return symbol?.getJsDocTags(undefined).some(({ name }) => name === 'internal') ?? false;
}

/** Returns the declaration and documentation of the name at the cursor. */
function inspectionAt({ service }: CheckedFiles, shown: ShownSource, offset: number): Inspection | undefined {
  const { source, path, shift } = shown;
  const at = Math.min(wordStart(source, offset), Math.max(0, source.length - 1));
  const info = service.getQuickInfoAtPosition(path, shift + at);
  if (info === undefined) return undefined;
  // A type that the cell cannot name has its file before it: import("…/module").Module.
  const declaration = ts.displayPartsToString(info.displayParts).replace(/import\("[^"]*"\)\./g, '');
  // The checker describes an unknown name as `any`.
  if (declaration === 'any') return undefined;
  const documentation = ts.displayPartsToString(info.documentation);
  const tags = (info.tags ?? []).map(({ name, text }) => ({ name, words: ts.displayPartsToString(text) }));
  const written = (code: (text: string) => string): string => {
    const lines = tags.map(({ name, words }) =>
      name === 'example' ? `Example:\n\n${code(words)}` : `@${name} ${words}`,
    );
    return [code(declaration), documentation, ...lines].filter((part) => part !== '').join('\n\n');
  };
  return {
    text: written((code) => code),
    markdown: written((code) => `\`\`\`typescript\n${code}\n\`\`\``),
  };
}

function wordStart(source: string, offset: number): number {
  let start = Math.min(offset, source.length);
  while (start > 0 && WORD.test(source[start - 1] ?? '')) start--;
  return start;
}

/** The names of the types that have the method `put`. */
const RECEIVERS: ReadonlySet<string> = new Set(['Job', 'RankSelection']);

/**
 * Returns the variables that a checked cell sends to ranks by `job.put({ X })`, and the texts of their types. The types come
 * from the call's argument, so they are known before the cell runs.
 */
function sentValues(program: ts.Program, file: ts.SourceFile): Record<string, string> {
  const sent: Record<string, string> = {};
  if (!file.text.includes('.put(')) return sent;
  const checker = program.getTypeChecker();
  const visit = (node: ts.Node): void => {
    const values = putArgument(node, checker);
    if (values !== undefined) {
      for (const property of checker.getPropertiesOfType(checker.getTypeAtLocation(values))) {
        sent[property.name] = typeText(checker, checker.getTypeOfSymbolAtLocation(property, values));
      }
    }
    ts.forEachChild(node, visit);
  };
  visit(file);
  return sent;
}

function putArgument(node: ts.Node, checker: ts.TypeChecker): ts.Expression | undefined {
  if (!ts.isCallExpression(node) || !ts.isPropertyAccessExpression(node.expression)) return undefined;
  const { name, expression } = node.expression;
  if (name.text !== 'put') return undefined;
  const receiver = checker.getTypeAtLocation(expression).getSymbol()?.name ?? '';
  return RECEIVERS.has(receiver) ? node.arguments[0] : undefined;
}

/** Returns a type as a text that other modules can contain. In the text, types of cells are imports from the cells' modules. */
function typeText(checker: ts.TypeChecker, type: ts.Type): string {
  const flags = ts.TypeFormatFlags.NoTruncation | ts.TypeFormatFlags.UseFullyQualifiedType;
  const text = checker.typeToString(checker.getBaseTypeOfLiteralType(type), undefined, flags);
  return text.replace(/import\("(?:[^"]*\/)?(__cell\d+)(?:\.mts)?"\)/g, 'import("./$1.mjs")');
}

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
    this.#declareNotebookNames();
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
    const { source: code, calls, fault } = this.#readMagics(cellSource);
    if (fault !== undefined) return { ok: false, error: magicError(fault), imports: undefined, missed: [] };
    const outline = outlineWithout(parse(code), calls);
    const module = ++this.#modules;
    const path = this.#pathOf(module);
    const { declared, exported, loadsPackages } = outline;
    const exports = [...declared.keys()].filter((name) => !exported.has(name));
    const prelude = this.#scopes[namespace].prelude(outline);
    this.#declareVariables(namespace, outline);
    const text = `${code}\n;${prelude}export { ${exports.join(', ')} };`;
    this.#files.show(path, text);
    const program = this.#files.program();
    const file = this.#files.file(path);
    const diagnostics = errorsOf(program, file);
    if (diagnostics.length > 0) {
      this.#files.drop(path);
      return this.#failedCheck(cellSource, code, outline, diagnostics);
    }
    const shared = this.#scopes[namespace].sharedNames(outline);
    const js = emit(program, file, { source, name: nameOf(cell), shared, calls });
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

  /** Takes the line magics out of a cell of the notebook; cells of ranks may have none. */
  #readMagics({ source, namespace }: Pick<CellSource, 'source' | 'namespace'>): ReadCell {
    const scope = this.#scopes[namespace];
    const isOwn = (word: string): boolean => outlineOf(parse(source)).declared.has(word);
    const cell = readLineMagics(source, (word) => scope.has(word) || isGlobal(word) || isOwn(word));
    const [first] = namespace === 'ranks' ? cell.calls : [];
    return first === undefined ? cell : { ...cell, fault: magicInRanks(first) };
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
      () => completenessOf(this.#readMagics({ source, namespace: 'notebook' }).source),
      () => ({ status: 'complete' }),
    );
  }

  names(namespace: Namespace): ReturnType<CompilerCalls['names']> {
    const cells = this.#scopes[namespace].cells();
    const { path } = this.#show({ source: '', namespace, offset: 0 }, true);
    return declaredNames(this.#files.program(), this.#files.file(path), cells);
  }

  reset(namespace: Namespace): void {
    this.#scopes[namespace].clear();
    this.#declareNotebookNames();
    this.#rankGlobalsKnown &&= namespace !== 'ranks';
  }

  #failedCheck(
    cellSource: CellSource,
    code: string,
    outline: Outline,
    diagnostics: readonly ts.Diagnostic[],
  ): FailedCheck {
    const { source, namespace, cell } = cellSource;
    const adviceFor = (unknown: string): string | undefined =>
      this.#scopes[namespace].absenceOf(unknown) ?? this.#elsewhere(unknown, namespace);
    const wasDeclared = (known: string): boolean => this.#scopes[namespace].has(known);
    const isKnown = (known: string): boolean =>
      wasDeclared(known) || this.#scopes[namespace].isLibrary(known);
    const faulty = { source, name: nameOf(cell), adviceFor, isKnown, wasDeclared };
    const error = describeDiagnostics(diagnostics, faulty);
    const text = rightImports(code, diagnostics);
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
    if (namespace === 'ranks' && this.#scopes.notebook.isLibrary(name))
      return `Only the notebook has ${name}: use it in a cell without %%ranks, and send values with await job.put({ value }).`;
    return namespace === 'notebook'
      ? `Ranks have ${name}: begin the cell with %%ranks to use ${name} there, or read its value: await job.get('${name}'); a function that ranks run takes ${name} from the scope: ({ ${name} }) => ….`
      : `The notebook has ${name}, but ranks do not: send its value with await job.put({ ${name} }).`;
  }

  #show({ source: written, namespace }: Position, all: boolean): ShownSource {
    this.#learnRankGlobals(namespace);
    const { source } = this.#readMagics({ source: written, namespace });
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

  /** Declares what only the notebook's cells have. */
  #declareNotebookNames(): void {
    this.#files.keep(join(this.#places.cellDir, '__notebook.mts'), NOTEBOOK_DECLARATION, false);
    this.#scopes.notebook.declareExports('./__notebook.mjs', NOTEBOOK_NAMES);
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

/** The names that a cell declares, without those within code that `%timeit` repeats. */
function outlineWithout(file: ts.SourceFile, calls: readonly MagicCall[]): Outline {
  return outlineOf(
    file,
    (statement) =>
      !ts.isImportDeclaration(statement) && timeitAround(statement.getStart(file), calls) !== undefined,
  );
}

/** Whether every cell has the name. */
function isGlobal(name: string): boolean {
  return name in globalThis || CELL_GLOBALS.test(name);
}

const CELL_GLOBALS = /^(display|updateDisplay|clearOutput|require)$/;

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

interface EmittedCell {
  readonly source: string;
  readonly name: string;
  readonly shared: ReadonlySet<string>;
  readonly calls: readonly MagicCall[];
}

/** Returns the JavaScript of a checked file, with a source map that refers only to the cell's source. */
function emit(
  program: ts.Program,
  file: ts.SourceFile,
  { source, name, shared, calls }: EmittedCell,
): string {
  let js = '';
  let map = '{}';
  const write: ts.WriteFileCallback = (path, text) => {
    if (path.endsWith('.map')) map = text;
    else js = text;
  };
  const after = [replTransformer(source.length, calls)];
  if (shared.size > 0) after.unshift(sharedNamesTransformer(program.getTypeChecker(), file, shared));
  program.emit(file, write, undefined, false, { after });
  const payload = JSON.stringify({ ...JSON.parse(map), sources: [name], sourcesContent: [source] });
  const inlined = Buffer.from(payload).toString('base64');
  const code = js.replace(/\n?\/\/# sourceMappingURL=.*\s*$/, '').replace(/^export \{\};$/m, '');
  return `${code}\n//# sourceMappingURL=data:application/json;base64,${inlined}`;
}

/**
 * Returns the types of those variables of a checked cell whose type is a class or an interface that another file exports. A
 * type is a text that any module may contain: `import("/…/run.js").Run`. [Note: prelude] says how these texts are used.
 */
function namedTypes(
  program: ts.Program,
  file: ts.SourceFile,
  { declared }: Pick<Outline, 'declared'>,
): Record<string, string> {
  const checker = program.getTypeChecker();
  const module = checker.getSymbolAtLocation(file);
  const typeTexts: Record<string, string> = {};
  // If a cell adds to the types of a package, later cells need the text of the cell itself.
  if (module === undefined || file.statements.some(ts.isModuleDeclaration)) return typeTexts;
  for (const exported of checker.getExportsOfModule(module)) {
    const kind = declared.get(exported.name);
    if (kind !== 'const' && kind !== 'let') continue;
    const text = importOf(checker.getTypeOfSymbol(exported), file, checker);
    if (text !== undefined) typeTexts[exported.name] = text;
  }
  return typeTexts;
}

function importOf(type: ts.Type, cell: ts.SourceFile, checker: ts.TypeChecker): string | undefined {
  if (!type.isClassOrInterface() || (type.typeParameters?.length ?? 0) > 0) return undefined;
  const { symbol } = type;
  const home = symbol.declarations?.[0]?.getSourceFile();
  // A type that a cell declares has no file on disk, and takes little time to check again.
  if (home === undefined || home === cell || home.fileName.endsWith('.mts')) return undefined;
  const module = checker.getSymbolAtLocation(home);
  const isExported =
    module !== undefined && checker.tryGetMemberInModuleExports(symbol.name, module) === symbol;
  if (!isExported) return undefined;
  const path = home.fileName.replace(/\.d\.([cm]?)ts$/, '.$1js');
  return `import(${JSON.stringify(path)}).${symbol.name}`;
}
