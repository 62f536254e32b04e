import { join } from 'node:path';
import ts from 'typescript';
import { GLOBALS_DECLARATION } from './globals';
import { type ResolutionPlaces, createModuleResolver } from './module-resolution';

/** TypeScript's language service over files that exist in memory beside those on disk. */
export interface CheckedFiles {
  readonly service: ts.LanguageService;
  /** Sets a file's text and makes it the one that is checked; the other roots of the program are fixed. */
  show(path: string, text: string): void;
  /** Keeps a file for others to import, or drops it. */
  keep(path: string, text: string): void;
  drop(path: string): void;
  /** A program that holds the shown file as it is now. */
  program(): ts.Program;
  file(path: string): ts.SourceFile;
}

interface VirtualFile {
  readonly version: number;
  readonly snapshot: ts.IScriptSnapshot;
  readonly text: string;
}

/** Starts the service; nothing is read or checked before the first question. */
export function createCheckedFiles(places: ResolutionPlaces): CheckedFiles {
  const files = new Map<string, VirtualFile>();
  const globals = join(places.cellDir, 'globals.d.ts');
  const options = compilerOptions(places.installation);
  let shown = globals;
  let versions = 0;
  const put = (path: string, text: string): void => {
    if (files.get(path)?.text === text) return;
    files.set(path, { version: ++versions, snapshot: ts.ScriptSnapshot.fromString(text), text });
  };
  put(globals, GLOBALS_DECLARATION);
  const host = createHost(files, options, places, () => (shown === globals ? [globals] : [globals, shown]));
  const service = ts.createLanguageService(host, ts.createDocumentRegistry(true, places.installation));
  const program = (): ts.Program => {
    const current = service.getProgram();
    if (current === undefined) throw new Error('the language service has no program');
    return current;
  };
  return {
    service,
    show: (path, text) => {
      put(path, text);
      shown = path;
    },
    keep: put,
    drop: (path) => {
      files.delete(path);
    },
    program,
    file: (path) => {
      const file = program().getSourceFile(path);
      if (file === undefined) throw new Error(`the program lacks ${path}`);
      return file;
    },
  };
}

/** Strict where it helps in a notebook: null checks and function types, but no demand for annotations. */
function compilerOptions(installation: string): ts.CompilerOptions {
  return {
    target: ts.ScriptTarget.ES2022,
    lib: ['lib.es2023.d.ts'],
    module: ts.ModuleKind.ESNext,
    moduleResolution: ts.ModuleResolutionKind.Bundler,
    moduleDetection: ts.ModuleDetectionKind.Force,
    types: ['node'],
    typeRoots: [join(installation, 'node_modules', '@types')],
    strict: false,
    strictNullChecks: true,
    strictFunctionTypes: true,
    strictBindCallApply: true,
    noImplicitThis: true,
    esModuleInterop: true,
    resolveJsonModule: true,
    skipLibCheck: true,
    allowUnreachableCode: true,
    allowUnusedLabels: true,
    sourceMap: true,
    inlineSources: true,
    removeComments: true,
  };
}

function createHost(
  files: ReadonlyMap<string, VirtualFile>,
  options: ts.CompilerOptions,
  places: ResolutionPlaces,
  roots: () => string[],
): ts.LanguageServiceHost {
  const { sys } = ts;
  const onDisk = (path: string): ts.IScriptSnapshot | undefined => {
    const text = sys.readFile(path);
    return text === undefined ? undefined : ts.ScriptSnapshot.fromString(text);
  };
  return {
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
    resolveModuleNameLiterals: createModuleResolver(options, places, (path) => files.has(path)),
  };
}

/** Files of packages do not change under a kernel; a user's own may. */
function diskVersion(path: string): string {
  if (path.includes('/node_modules/')) return '0';
  return String(ts.sys.getModifiedTime?.(path)?.getTime() ?? 0);
}
