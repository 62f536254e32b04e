import { readFileSync } from 'node:fs';
import { register } from 'node:module';
import { extname } from 'node:path';
import { fileURLToPath } from 'node:url';

/** Extensions of files that are read as TypeScript modules. */
export const TYPESCRIPT_EXTENSIONS = ['.ts', '.mts'] as const;

interface Loaded {
  readonly format?: string | null | undefined;
  readonly source?: string | undefined;
  readonly shortCircuit?: boolean | undefined;
}

interface Resolved {
  readonly url: string;
  readonly shortCircuit?: boolean | undefined;
}

/** Lets this process import TypeScript files next to the notebook; see Node's module customization hooks. */
export function enableTypescriptFiles(): void {
  register(`file://${__filename}`);
}

/** Hook: looks for a TypeScript file if a relative import finds no file. */
export async function resolve(
  specifier: string,
  context: { readonly parentURL?: string },
  next: (specifier: string, context: unknown) => Promise<Resolved>,
): Promise<Resolved> {
  try {
    return await next(specifier, context);
  } catch (error) {
    if (!/^\.{1,2}\//.test(specifier) || context.parentURL === undefined) throw error;
    const bare = specifier.replace(/\.m?js$/, '');
    for (const extension of TYPESCRIPT_EXTENSIONS) {
      try {
        return await next(bare + extension, context);
      } catch {
        // The next extension is tried; after the last one the first error is thrown.
      }
    }
    throw error;
  }
}

/** Hook: strips types from TypeScript files; the checker checks the files separately. */
export async function load(
  url: string,
  context: unknown,
  next: (url: string, context: unknown) => Promise<Loaded>,
): Promise<Loaded> {
  const [bare = url] = url.split('?');
  if (!bare.startsWith('file:') || !isTypescript(bare)) return next(url, context);
  // Node 22 cannot require this ES module in the thread that runs hooks.
  const { transformSync } = await import('oxc-transform');
  const path = fileURLToPath(bare);
  const { code, errors } = transformSync(path, readFileSync(path, 'utf8'), {
    lang: 'ts',
    sourceType: 'module',
  });
  const first = errors[0];
  if (first !== undefined) throw new SyntaxError(`${path}: ${first.message}`);
  return { format: 'module', source: code, shortCircuit: true };
}

/** Whether a path names a TypeScript module; false for a declaration file. */
export function isTypescript(path: string): boolean {
  return TYPESCRIPT_EXTENSIONS.some((extension) => extname(path) === extension) && !/\.d\.m?ts$/.test(path);
}
