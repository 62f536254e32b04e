import { createHash } from 'node:crypto';
import {
  closeSync,
  openSync,
  readFileSync,
  readSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import Module from 'node:module';
import { dirname, join } from 'node:path';
import { constants, Script } from 'node:vm';
import { makeFolder } from '../regular-file';
import { generatedFolder } from './generated-folder';

/**
 * [Note: code cache] A rank needs most of its start time to find, read and compile about 500 modules. One file in the build's
 * folder has these modules' texts, their compiled code, and the file that each of their `require` calls finds. Processes only
 * read this file; `npm start` and `npm test` write it. So no process waits for another, and an installation may be read-only. A
 * module comes from the cache only if the cache is undamaged (SHA-1) and the module's file has not changed since the recording:
 * its size and the time of its last change are the same, or its text is the same. V8 uses the compiled code only if the same
 * version of V8 compiled it with the same flags; otherwise V8 compiles the text. Since 22.1, Node has its own cache
 * (`module.enableCompileCache`). Node 20 has no such cache, and packages that add a cache to Node 20 write it while ranks run.
 */

/** The parts of Node's loader that this file uses or replaces; `@types/node` does not declare these parts. */
interface Loader {
  new (file: string, parent: NodeModule | undefined): NodeModule;
  readonly prototype: { _compile(this: NodeModule, text: string, file: string, format?: string): unknown };
  readonly _cache: Record<string, NodeModule>;
  readonly _extensions: NodeJS.RequireExtensions;
  _load(request: string, parent: NodeModule | undefined, isMain: boolean): unknown;
  _nodeModulePaths(folder: string): string[];
  _resolveFilename(request: string, parent: NodeModule | undefined, ...rest: unknown[]): string;
  _resolveLookupPaths(request: string, parent: NodeModule): string[] | null;
}
const loader = Module as unknown as Loader;

/** One module; its text and its code are elsewhere in the cache. */
interface Entry {
  readonly file: string;
  readonly size: number;
  readonly mtimeMs: number;
  readonly textBytes: number;
  /** Node decodes ASCII as Latin-1 many times faster than as UTF-8. */
  readonly isAscii: boolean;
  readonly codeBytes: number;
  /** For each argument of the module's `require` calls: the index, in the header's list, of the module that Node found. */
  readonly requires: Readonly<Record<string, number>>;
}

/**
 * The first line of a cache: the build that the cache belongs to, the SHA-1 of the rest, and the modules in the order of their
 * texts.
 */
interface Header {
  readonly build: string;
  readonly sha1: string;
  readonly modules: readonly Entry[];
}

/**
 * A module whose text and code are read from the open file when they are needed. The file is about 10 MB; a job has many processes, and
 * each of them would store it. The file stays the same, because a new cache replaces it under its name.
 */
interface CachedModule extends Entry {
  text(): Buffer;
  code(): Buffer;
}

/** An open cache. */
interface Cache {
  readonly build: string;
  readonly modules: readonly CachedModule[];
  close(): void;
}

/** The cache is checked in pieces of this size. */
const PIECE_BYTES = 1 << 20;

/**
 * Returns the path of the cache for this Node. Each version of Node has its own cache, so that two versions may share an
 * installation.
 */
export function codeCachePath(build = join(__dirname, '..', '..', '..')): string {
  return join(generatedFolder(build), 'code-cache', `${process.version}-${process.arch}.bin`);
}

/** Returns the build for which a cache was written; undefined if there is no cache that can be used. */
export function cachedBuild(path: string): string | undefined {
  const cache = openCache(path);
  cache?.close();
  return cache?.build;
}

/**
 * From now on, this process loads a module from the cache if the module is in it. Without a usable cache nothing changes.
 * Returns the set of files whose compiled code was used; the set grows with each loaded module.
 */
export function useCodeCache(path = codeCachePath()): ReadonlySet<string> {
  const used = new Set<string>();
  const modules = openCache(path)?.modules ?? [];
  const byFile = new Map(modules.map((module) => [module.file, module]));
  const load = loader._load.bind(loader);
  loader._load = (request, parent, isMain) => {
    if (isMain) return load(request, parent, isMain);
    const requires = byFile.get(parent?.filename ?? '')?.requires;
    const known = requires
      ? modules[requires[request] ?? -1]
      : byFile.get(loader._resolveFilename(request, parent, isMain));
    const module = known && loader._cache[known.file];
    if (module?.loaded) return module.exports;
    // Node itself handles modules that require each other, loads modules for `import()`, and compiles changed files.
    if (known === undefined || module !== undefined || !isUnchanged(known))
      return load(request, parent, isMain);
    return loadFrom(known, parent, used);
  };
  return used;
}

function isUnchanged({ file, size, mtimeMs, text }: CachedModule): boolean {
  const stats = statSync(file, { throwIfNoEntry: false });
  if (stats?.size !== size) return false;
  return stats.mtimeMs === mtimeMs || readFileSync(file).equals(text());
}

/** Loads a module from the cache, in the same steps in which Node's loader loads a file. */
function loadFrom(
  { file, text, isAscii, code }: CachedModule,
  parent: NodeModule | undefined,
  used: Set<string>,
): unknown {
  const module = new loader(file, parent);
  module.filename = file;
  module.paths = parent?.path === module.path ? parent.paths : loader._nodeModulePaths(module.path);
  loader._cache[file] = module;
  try {
    const script = compiled(text().toString(isAscii ? 'latin1' : 'utf8'), file, code());
    if (script.cachedDataRejected === false) used.add(file);
    run(script, module);
    module.loaded = true;
  } finally {
    if (!module.loaded) delete loader._cache[file];
  }
  return module.exports;
}

/** Records the modules that this process loads from now on; returns a function that writes them as the cache of `build`. */
export function recordCode(): (path: string, build: string) => void {
  const scripts = new Map<string, { readonly text: string; readonly script: Script }>();
  const requires = new Map<string, Map<string, string>>();
  const compile = loader.prototype._compile;
  loader.prototype._compile = function (text, file, format) {
    const isCommon = format === undefined || format === 'commonjs';
    if (text.startsWith('#!') || !isCommon) return compile.call(this, text, file, format);
    const script = compiled(text, file);
    scripts.set(file, { text, script });
    return run(script, this);
  };
  const load = loader._load;
  loader._load = (request, parent, isMain) => {
    const from = parent?.filename;
    if (from) {
      const targets = requires.get(from) ?? new Map<string, string>();
      requires.set(from, targets.set(request, loader._resolveFilename(request, parent, isMain)));
    }
    return load.call(loader, request, parent, isMain);
  };
  return (path, build) => {
    const files = [...scripts.keys()];
    const indices = new Map(files.map((file, i) => [file, i]));
    const parts: Buffer[] = [];
    const modules = [...scripts].map(([file, { text, script }]): Entry => {
      const bytes = Buffer.from(text);
      // Compiled code that V8 reads from a cache cannot run `import()`, so such a module is stored without compiled code.
      const code = /\bimport\(/.test(text) ? Buffer.alloc(0) : script.createCachedData();
      parts.push(bytes, code);
      const { size, mtimeMs } = statSync(file);
      const targetIndices = [...(requires.get(file) ?? [])].map(([request, target]) => [
        request,
        indices.get(target),
      ]);
      return {
        file,
        size,
        mtimeMs,
        textBytes: bytes.length,
        isAscii: bytes.length === text.length,
        codeBytes: code.length,
        requires: Object.fromEntries(targetIndices.filter(([, index]) => index !== undefined)),
      };
    });
    const all = Buffer.concat(parts);
    writeWhole(path, [
      Buffer.from(`${JSON.stringify({ build, sha1: sha1Of(all), modules } satisfies Header)}\n`),
      all,
    ]);
  };
}

function writeWhole(path: string, parts: readonly Buffer[]): void {
  const work = `${path}.${process.pid}`;
  makeFolder(dirname(path));
  try {
    writeFileSync(work, Buffer.concat(parts));
    renameSync(work, path);
  } finally {
    rmSync(work, { force: true });
  }
}

function compiled(text: string, file: string, cachedData?: Buffer): Script {
  return new Script(Module.wrap(text), {
    filename: file,
    columnOffset: -Module.wrap('').indexOf('\n'),
    importModuleDynamically: constants.USE_MAIN_CONTEXT_DEFAULT_LOADER,
    ...(cachedData?.length && { cachedData }),
  });
}

function run(script: Script, module: NodeModule): unknown {
  const require = Object.assign((id: string) => module.require(id), {
    resolve: Object.assign(
      (request: string, options?: object) => loader._resolveFilename(request, module, false, options),
      { paths: (request: string) => loader._resolveLookupPaths(request, module) },
    ),
    main: process.mainModule,
    extensions: loader._extensions,
    cache: loader._cache,
  });
  const { exports, filename, path } = module;
  return script.runInThisContext().call(exports, exports, require, module, filename, path);
}

function openCache(path: string): Cache | undefined {
  let fd: number | undefined;
  try {
    fd = openSync(path, 'r');
    const { header, start } = readHeader(fd);
    if (header.sha1 !== sha1From(fd, start)) throw new Error('damaged');
    const { build, modules } = header;
    return { build, modules: modulesOf(fd, start, modules), close: closeSync.bind(undefined, fd) };
  } catch {
    if (fd !== undefined) closeSync(fd);
    return undefined;
  }
}

function modulesOf(fd: number, start: number, entries: readonly Entry[]): CachedModule[] {
  let end = start;
  return entries.map((entry) => {
    const [from, middle] = [end, end + entry.textBytes];
    end = middle + entry.codeBytes;
    return {
      ...entry,
      text: () => readPart(fd, from, entry.textBytes),
      code: () => readPart(fd, middle, entry.codeBytes),
    };
  });
}

/** Reads the first line, which recordCode wrote, and returns where the rest begins. */
function readHeader(fd: number): { readonly header: Header; readonly start: number } {
  let line = Buffer.alloc(0);
  while (!line.includes('\n')) {
    const piece = readPart(fd, line.length, PIECE_BYTES);
    if (piece.length === 0) throw new Error('no header');
    line = Buffer.concat([line, piece]);
  }
  const end = line.indexOf('\n');
  return { header: JSON.parse(line.toString('utf8', 0, end)), start: end + 1 };
}

/** Returns at most `length` bytes, fewer at the end of the file. */
function readPart(fd: number, position: number, length: number): Buffer {
  const bytes = Buffer.allocUnsafe(length);
  return bytes.subarray(0, readSync(fd, bytes, 0, length, position));
}

function sha1From(fd: number, start: number): string {
  const hash = createHash('sha1');
  const piece = Buffer.allocUnsafe(PIECE_BYTES);
  let position = start;
  for (let length = 1; length > 0; position += length) {
    length = readSync(fd, piece, 0, PIECE_BYTES, position);
    hash.update(piece.subarray(0, length));
  }
  return hash.digest('base64');
}

function sha1Of(data: Buffer): string {
  return createHash('sha1').update(data).digest('base64');
}
