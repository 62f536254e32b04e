import { existsSync, statSync } from 'node:fs';
import { createRequire } from 'node:module';
import { isAbsolute, join, resolve as resolvePath } from 'node:path';
import { pathToFileURL } from 'node:url';
import { constants, Script } from 'node:vm';
import { findInstallation, installAdvice, ownName, readRegularFile, ShardlabError } from '../core';
import { showTensorValues } from './mime';
import { enableTypescriptFiles, isTypescript, TYPESCRIPT_EXTENSIONS } from './typescript-files';

/** Loads a package or file for a cell; `names` are the bindings that the cell imports. */
export type Importer = (specifier: string, names?: readonly string[]) => Promise<object>;

/** Name of the file, which does not exist, as whose code cells import. */
const CELLS_FILE = 'notebook.js';

const TFJS = /^(@tensorflow\/tfjs|shardlab\/tf$)/;
const EXTENSIONS = [
  '.js',
  '.mjs',
  '.cjs',
  ...TYPESCRIPT_EXTENSIONS,
  '.json',
  '/index.js',
  '/index.mjs',
  '/index.ts',
];

/**
 * Returns a function that imports as Node does for a module in the notebook's folder `baseDir`: ESM and CommonJS packages,
 * `exports`, built-ins, files. The function throws IO, with the command to install, if a package is missing.
 */
export function createImporter(baseDir: string): Importer {
  const fromNotebook = importFrom(baseDir);
  const fromInstallation = importFrom(findInstallation());
  let typescriptEnabled = false;
  const load = async (specifier: string): Promise<object> => {
    const json = jsonFile(specifier, baseDir);
    if (json !== undefined) return readJson(json);
    const { url, typescript } = locate(specifier, baseDir);
    if (typescript && !typescriptEnabled) enableTypescriptFiles();
    typescriptEnabled ||= typescript;
    try {
      return await fromNotebook(url);
    } catch (error) {
      if (!isMissing(error, specifier)) throw error;
      const own = ownName(specifier);
      if (own !== undefined) return fromInstallation(own);
      throw missing(specifier, baseDir, error);
    }
  };
  return async (specifier, names = []) => {
    // The package tslab itself can show values only in tslab's own kernel.
    if (specifier === 'tslab') return fromInstallation('shardlab/tslab');
    const loaded = withInterop(await load(specifier), names);
    if (TFJS.test(specifier) && 'Tensor' in loaded) {
      showTensorValues(loaded.Tensor);
      mendGradientsAgain();
    }
    return loaded;
  };
}

/** `import.meta` of cells: that of a module beside the notebook, because the kernel does not know the notebook's own file. */
export function importMeta(baseDir: string): Readonly<Record<string, unknown>> {
  const filename = join(baseDir, CELLS_FILE);
  const require = requireFrom(baseDir);
  const resolve = (specifier: string): string => {
    if (specifier.startsWith('node:')) return specifier;
    const resolvedPath = /^\.{0,2}\//.test(specifier)
      ? resolvePath(baseDir, specifier)
      : require.resolve(specifier);
    return isAbsolute(resolvedPath) ? pathToFileURL(resolvedPath).href : `node:${resolvedPath}`;
  };
  return Object.assign(Object.create(null), {
    dirname: baseDir,
    filename,
    url: pathToFileURL(filename).href,
    resolve,
  });
}

/**
 * Replaces tfjs's gradients by the engine's gradients a second time, because loading @tensorflow/tfjs has registered tfjs's
 * gradients again.
 */
function mendGradientsAgain(): void {
  const engine =
    require.cache[join(__dirname, '..', 'engine', 'backend', 'mended', 'mended-gradients.js')]?.exports;
  (engine as { readonly mendGradients: () => void } | undefined)?.mendGradients(); // undefined if this process has no engine
}

/** Returns the `require` of a file in the folder. */
export function requireFrom(folder: string): NodeJS.Require {
  return createRequire(join(folder, CELLS_FILE));
}

// A script with this constant uses Node's own loader for imports, relative to its file name.
function importFrom(folder: string): (specifier: string) => Promise<object> {
  const script = new Script('(specifier) => import(specifier)', {
    filename: join(folder, CELLS_FILE),
    importModuleDynamically: constants.USE_MAIN_CONTEXT_DEFAULT_LOADER,
  });
  // The script's completion value is the function in its text.
  return script.runInThisContext() as (specifier: string) => Promise<object>;
}

interface Located {
  /** The argument for Node's loader: a package's name, or a file's URL. */
  readonly url: string;
  readonly typescript: boolean;
}

function locate(specifier: string, baseDir: string): Located {
  if (!/^\.{0,2}\//.test(specifier) && !isAbsolute(specifier)) return { url: specifier, typescript: false };
  const path = resolvePath(baseDir, specifier);
  const candidates = [path, ...EXTENSIONS.map((end) => path + end), path.replace(/\.(m?)js$/, '.$1ts')];
  const isBare = !/\.\w+$/.test(path);
  const existingFile = candidates.find((file) => existsSync(file) && !(isBare && file === path));
  const typescript = existingFile !== undefined && isTypescript(existingFile);
  const { href } = pathToFileURL(existingFile ?? path);
  // Node caches modules by URL: an edited TypeScript file gets a new URL, so that running the cell again reads it.
  return { url: typescript ? `${href}?${statSync(existingFile).mtimeMs}` : href, typescript };
}

/** Returns the path of the JSON file that a specifier names; undefined if it names something else, or nothing. */
function jsonFile(specifier: string, baseDir: string): string | undefined {
  if (!specifier.endsWith('.json')) return undefined;
  try {
    return requireFrom(baseDir).resolve(specifier);
  } catch {
    return undefined;
  }
}

/** Returns a JSON file as a module: its value is the default export, and its keys are exports too, as their types say. */
function readJson(path: string): object {
  const value = parsedJson(path);
  const hasKeys = typeof value === 'object' && value !== null && !Array.isArray(value);
  return { ...(hasKeys ? value : {}), default: value };
}

function parsedJson(path: string): unknown {
  try {
    return JSON.parse(readRegularFile(path).replace(/^\uFEFF/, ''));
  } catch (cause) {
    throw new ShardlabError('IO', `${path} cannot be read as JSON: ${String(cause)}`, { cause });
  }
}

function isMissing(error: unknown, specifier: string): boolean {
  if (!(error instanceof Error) || !('code' in error)) return false;
  if (error.code !== 'ERR_MODULE_NOT_FOUND' && error.code !== 'ERR_PACKAGE_PATH_NOT_EXPORTED') return false;
  // If an installed package imports a missing package, the message names the missing package, not `specifier`.
  return error.message.includes(specifier.split('/')[0] ?? specifier) || specifier.startsWith('.');
}

function missing(specifier: string, baseDir: string, cause: unknown): ShardlabError {
  const local = /^\.{0,2}\//.test(specifier);
  const advice = local
    ? 'check the path; it is relative to the notebook'
    : `run: ${installAdvice().npmPackage(specifier)}`;
  return new ShardlabError('IO', `cannot find ${specifier} from ${baseDir}; ${advice}`, { cause });
}

/**
 * [Note: CommonJS in cells] Node guesses the export names of a CommonJS module; names that Node misses are properties of
 * the default export. An ES module that was transpiled to CommonJS has its own default export one level deeper. Types describe
 * both kinds of modules as ES modules, and cells use them as ES modules.
 */
function withInterop(namespace: object, names: readonly string[]): object {
  const whole: unknown = 'default' in namespace ? namespace.default : undefined;
  if (whole === null || (typeof whole !== 'object' && typeof whole !== 'function')) return namespace;
  const transpiled = '__esModule' in whole && 'default' in whole;
  const lacking = names.some((name) => !(name in namespace));
  const guessedNothing = Object.keys(namespace).every((key) => key === 'default' || key === 'module.exports');
  const isCommonJs = 'module.exports' in namespace || Object.keys(namespace).length === 1;
  if (!transpiled && !lacking && !(guessedNothing && isCommonJs)) return namespace;
  return { ...whole, ...namespace, default: transpiled ? whole.default : whole };
}
