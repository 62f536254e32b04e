import { createHash } from 'node:crypto';
import { existsSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import Module from 'node:module';
import { dirname, join } from 'node:path';
import { constants, Script } from 'node:vm';
import { makeFolder } from '../regular-file';

/**
 * [Note: code cache] A quarter of a rank's start is V8 compiling JavaScript. One file in the build's folder has the compiled
 * code of the modules that ranks and kernels load. It is only read here; `npm start` and `npm test` write it. So no process
 * waits for another one, and an installation may be read-only. Code is used only if the file is undamaged, the module's text
 * is the one that was compiled (SHA-1), and V8 accepts the code (its version and flags are those that compiled it); else the
 * module is compiled as usual.
 * Node has this built in since 22.1 (`module.enableCompileCache`), but not in Node 20, where its packages write while ranks run.
 */

/** The functions of Node's loader that are replaced; `@types/node` does not declare them. */
interface Loader {
  readonly prototype: { _compile(this: NodeModule, text: string, file: string, format?: string): unknown };
  _resolveFilename(request: string, parent: NodeModule | undefined, ...rest: unknown[]): string;
  _resolveLookupPaths(request: string, parent: NodeModule): string[] | null;
}
const loader = Module as unknown as Loader;

/** Compiled code of one module. */
interface CachedCode {
  readonly file: string;
  readonly sha1: string;
  readonly bytes: number;
}

/** The first line of a cache: what it was written for, the SHA-1 of the code, and the modules in the order of their code. */
interface Header {
  readonly build: string;
  readonly sha1: string;
  readonly modules: readonly CachedCode[];
}

/** Returns the path of the cache for this Node. Each version has its own, so that two of them may share an installation. */
export function codeCachePath(build = join(__dirname, '..', '..', '..')): string {
  return join(build, 'code-cache', `${process.version}-${process.arch}.bin`);
}

/** Returns the build for which a cache was written; undefined if there is no cache that can be used. */
export function cachedBuild(path: string): string | undefined {
  return readCache(path)?.header.build;
}

/**
 * From now on, modules that are in the cache load without being compiled. Without a usable cache nothing changes. Returns the
 * files that were loaded so, which grow with time.
 */
export function useCodeCache(path = codeCachePath()): ReadonlySet<string> {
  const used = new Set<string>();
  const cache = readCache(path);
  if (cache === undefined) return used;
  const found = new Map<string, { readonly sha1: string; readonly code: Buffer }>();
  let start = 0;
  for (const { file, sha1, bytes } of cache.header.modules) {
    found.set(file, { sha1, code: cache.code.subarray(start, start + bytes) });
    start += bytes;
  }
  replaceCompile((text, file) => {
    const known = found.get(file);
    if (known === undefined || known.sha1 !== sha1Of(text)) return undefined;
    const script = compiled(text, file, known.code);
    if (script.cachedDataRejected === true) return undefined;
    used.add(file);
    return script;
  });
  const resolve = loader._resolveFilename;
  loader._resolveFilename = (request, parent, ...rest) => {
    // Node looks at five places of the file system before it finds './name.js'.
    const file = parent !== undefined && request.startsWith('.') ? join(parent.path, `${request}.js`) : '';
    const isKnown = found.has(file) && found.has(parent?.filename ?? '') && existsSync(file);
    return isKnown ? file : resolve(request, parent, ...rest);
  };
  return used;
}

/** Records the modules that this process loads from now on; returns a function that writes them as the cache of `build`. */
export function recordCode(): (path: string, build: string) => void {
  const scripts = new Map<string, { readonly text: string; readonly script: Script }>();
  replaceCompile((text, file) => {
    // V8 does not restore what `import()` needs.
    if (text.startsWith('#!') || /\bimport\(/.test(text)) return undefined;
    const script = compiled(text, file);
    scripts.set(file, { text, script });
    return script;
  });
  return (path, build) => {
    const code = [...scripts.values()].map(({ script }) => script.createCachedData());
    const modules = [...scripts].map(([file, { text }], i): CachedCode => {
      return { file, sha1: sha1Of(text), bytes: code[i]?.length ?? 0 };
    });
    const all = Buffer.concat(code);
    const header: Header = { build, sha1: sha1Of(all), modules };
    const work = `${path}.${process.pid}`;
    makeFolder(dirname(path));
    try {
      writeFileSync(work, Buffer.concat([Buffer.from(`${JSON.stringify(header)}\n`), all]));
      renameSync(work, path);
    } finally {
      rmSync(work, { force: true });
    }
  };
}

function replaceCompile(scriptOf: (text: string, file: string) => Script | undefined): void {
  const compile = loader.prototype._compile;
  loader.prototype._compile = function (text, file, format) {
    const script = format === undefined || format === 'commonjs' ? scriptOf(text, file) : undefined;
    if (script === undefined) return compile.call(this, text, file, format);
    const require = Object.assign((id: string) => this.require(id), {
      resolve: Object.assign(
        (request: string, options?: object) => loader._resolveFilename(request, this, false, options),
        { paths: (request: string) => loader._resolveLookupPaths(request, this) },
      ),
      main: process.mainModule,
      extensions: Module['_extensions' as never],
      cache: Module['_cache' as never],
    });
    return script.runInThisContext().call(this.exports, this.exports, require, this, file, dirname(file));
  };
}

function compiled(text: string, file: string, cachedData?: Buffer): Script {
  return new Script(Module.wrap(text), {
    filename: file,
    columnOffset: -Module.wrap('').indexOf('\n'),
    importModuleDynamically: constants.USE_MAIN_CONTEXT_DEFAULT_LOADER,
    ...(cachedData && { cachedData }),
  });
}

function readCache(path: string): { readonly header: Header; readonly code: Buffer } | undefined {
  try {
    const file = readFileSync(path);
    const end = file.indexOf('\n');
    const header: Header = JSON.parse(file.toString('utf8', 0, end)); // recordCode wrote it
    const code = file.subarray(end + 1);
    return header.sha1 === sha1Of(code) ? { header, code } : undefined;
  } catch {
    return undefined;
  }
}

function sha1Of(data: string | Buffer): string {
  return createHash('sha1').update(data).digest('base64');
}
