import { dirname, join } from 'node:path';
import ts from 'typescript';
import {
  createModuleResolver,
  createTypeReferenceResolver,
  type ResolutionPlaces,
} from './module-resolution';

/** TypeScript's language service over files in memory and on disk. */
export type CheckedFiles = ReturnType<typeof createCheckedFiles>;

interface VirtualFile {
  readonly version: number;
  readonly snapshot: ts.IScriptSnapshot;
  readonly text: string;
}

/** Makes the service. Before the first call, the service reads and checks nothing. */
export function createCheckedFiles(places: ResolutionPlaces) {
  const files = new Map<string, VirtualFile>();
  const globals = join(places.cellDir, 'globals.d.ts');
  const options = compilerOptions(places.installation);
  const variables = join(places.cellDir, '__rank_variables.mts');
  const loaders = new Set<string>();
  let shown = globals;
  let versions = 0;
  const put = (path: string, text: string): void => {
    if (files.get(path)?.text === text) return;
    files.set(path, { version: ++versions, snapshot: ts.ScriptSnapshot.fromString(text), text });
  };
  put(globals, GLOBALS_DECLARATION);
  put(variables, '');
  const always = [globals, variables];
  const host = createHost(files, options, places, () => (shown === globals ? always : [...always, shown]));
  const registry = ts.createDocumentRegistry(true, places.installation);
  const service = ts.createLanguageService(host, registry);
  // A second service with the same registry. It checks nothing; its only purpose is that the registry's files stay in memory.
  const keeper = ts.createLanguageService({ ...host, getScriptFileNames: () => [...loaders] }, registry);
  const program = (): ts.Program => {
    const current = service.getProgram();
    if (current === undefined) throw new Error('the language service has no program');
    return current;
  };
  return {
    service,
    /** Sets a file's text and makes it the checked file. */
    show(path: string, text: string): void {
      put(path, text);
      shown = path;
    },
    /**
     * Stores a file that later cells import. If the file loads packages, the packages' files stay in memory. Without
     * this, the service would drop these files after each cell that does not mention them, and read them again later.
     */
    keep(path: string, text: string, loadsPackages: boolean): void {
      put(path, text);
      if (!loadsPackages) return;
      loaders.add(path);
      keeper.getProgram();
    },
    /** Sets the text that declares the ranks' variables for the checked file. */
    declareVariables(text: string): void {
      put(variables, text);
    },
    drop(path: string): void {
      files.delete(path);
    },
    /** Returns a program with the current text of the checked file. */
    program,
    file(path: string): ts.SourceFile {
      const file = program().getSourceFile(path);
      if (file === undefined) throw new Error(`the program lacks ${path}`);
      return file;
    },
  };
}

/**
 * Returns the compiler's options for cells. Null and function types are checked, but annotations are not required. With
 * noImplicitAny, `const list = []` takes the types that are pushed, and a field takes the type that the constructor assigns;
 * the errors of noImplicitAny are not shown.
 */
function compilerOptions(installation: string): ts.CompilerOptions {
  return {
    target: ts.ScriptTarget.ES2022,
    lib: ['lib.es2023.d.ts'],
    module: ts.ModuleKind.ESNext,
    moduleResolution: ts.ModuleResolutionKind.Bundler,
    moduleDetection: ts.ModuleDetectionKind.Force,
    types: ['node'],
    typeRoots: foldersAbove(installation).map((folder) => join(folder, 'node_modules', '@types')),
    strict: false,
    noImplicitAny: true,
    strictNullChecks: true,
    strictFunctionTypes: true,
    strictBindCallApply: true,
    noImplicitThis: true,
    esModuleInterop: true,
    resolveJsonModule: true,
    allowImportingTsExtensions: true,
    skipLibCheck: true,
    allowUnreachableCode: true,
    allowUnusedLabels: true,
    sourceMap: true,
    inlineSources: true,
    removeComments: true,
  };
}

/**
 * Returns a folder and all folders above it, because packages may be in the node_modules of each of these folders.
 */
function foldersAbove(folder: string): string[] {
  const parent = dirname(folder);
  return parent === folder ? [folder] : [folder, ...foldersAbove(parent)];
}

function createHost(
  files: ReadonlyMap<string, VirtualFile>,
  options: ts.CompilerOptions,
  places: ResolutionPlaces,
  roots: () => string[],
): ts.LanguageServiceHost {
  const { sys } = ts;
  const diskVersion = createDiskVersions();
  const packages = ts.createModuleResolutionCache(places.installation, (name) => name, options);
  const read = new Map<
    string,
    { readonly version: string; readonly snapshot: ts.IScriptSnapshot | undefined }
  >();
  const onDisk = (path: string): ts.IScriptSnapshot | undefined => {
    const version = diskVersion(path);
    const known = read.get(path);
    if (known?.version === version) return known.snapshot;
    const text = sys.readFile(path);
    const snapshot = text === undefined ? undefined : ts.ScriptSnapshot.fromString(text);
    read.set(path, { version, snapshot });
    return snapshot;
  };
  // TypeScript's typings lack getModuleResolutionCache; the service passes this function to its programs.
  const host: ts.LanguageServiceHost & Pick<ts.CompilerHost, 'getModuleResolutionCache'> = {
    getCompilationSettings: () => options,
    getScriptFileNames: roots,
    getScriptVersion: (path) => String(files.get(path)?.version ?? diskVersion(path)),
    getScriptSnapshot: (path) => files.get(path)?.snapshot ?? onDisk(path),
    getCurrentDirectory: () => places.installation,
    getDefaultLibFileName: (settings) => ts.getDefaultLibFilePath(settings),
    fileExists: (path) => files.has(path) || sys.fileExists(path),
    readFile: (path) => files.get(path)?.text ?? sys.readFile(path),
    directoryExists: sys.directoryExists,
    getDirectories: sys.getDirectories,
    useCaseSensitiveFileNames: () => sys.useCaseSensitiveFileNames,
    // This cache stores which package.json belongs to a file; without the cache, every cell would read all package.json files
    // again.
    getModuleResolutionCache: () => packages,
    resolveTypeReferenceDirectiveReferences: createTypeReferenceResolver(options),
    resolveModuleNameLiterals: createModuleResolver(options, places, (path) => files.has(path)),
  };
  return host;
}

/** A file's modification time stays in the cache this long, because a program asks for the times of hundreds of files at once. */
const MODIFIED_TIME_CACHE_MS = 1000;

/**
 * Returns a function that returns the version of a file on disk. The version changes if the file changes; files of packages
 * keep the version '0'.
 */
function createDiskVersions(): (path: string) => string {
  const known = new Map<string, { readonly at: number; readonly version: string }>();
  return (path) => {
    if (path.includes('/node_modules/')) return '0';
    const entry = known.get(path);
    const at = Date.now();
    if (entry !== undefined && at - entry.at < MODIFIED_TIME_CACHE_MS) return entry.version;
    const version = String(ts.sys.getModifiedTime?.(path)?.getTime() ?? 0);
    known.set(path, { at, version });
    return version;
  };
}

/** Declares for the checker the names that are in the scope of every cell (src/cell/display.ts). */
export const GLOBALS_DECLARATION = `
interface CellDisplayOptions {
  /** Names the display, so that updateDisplay can replace its content. */
  readonly displayId?: string;
  /** The value is a MIME bundle: { 'text/html': '<b>bold</b>' }. */
  readonly raw?: boolean;
}
/** Shows a value in the same form as a cell's result. */
declare function display(value: unknown, options?: CellDisplayOptions): Promise<void>;
/** Replaces the content of all displays with this id. */
declare function updateDisplay(displayId: string, value: unknown, options?: CellDisplayOptions): Promise<void>;
/** Clears the cell's output: at once or, if wait is true, when the next output arrives. */
declare function clearOutput(wait?: boolean): void;
`;

/** Declares the names that are in the scope of the notebook's cells and not of ranks (kernel/executor/main.ts). */
export const NOTEBOOK_DECLARATION = `
export interface CellComm {
  readonly id: string;
  readonly target: string;
  send(data: object, buffers?: readonly Uint8Array[]): void;
  close(data?: object): void;
  onMessage: (data: Record<string, unknown>, buffers: readonly Uint8Array[]) => void;
  onClose: (data: Record<string, unknown>) => void;
}
export interface CellComms {
  /** Opens a channel to the code that the front end has registered for the target. */
  open(target: string, data?: object, metadata?: object): CellComm;
  /** Accepts channels that the front end opens. */
  register(target: string, opened: (comm: CellComm, data: Record<string, unknown>) => void): void;
}
/** Asks the user of the notebook for a line of text. */
export declare function prompt(message?: string, options?: { readonly password?: boolean }): Promise<string>;
/** Channels to widgets. */
export declare const comms: CellComms;
`;
/** The names of NOTEBOOK_DECLARATION. */
export const NOTEBOOK_NAMES = [...NOTEBOOK_DECLARATION.matchAll(/^export (?:declare )?\w+ (\w+)/gm)].map(
  ([, name = '']) => name,
);
