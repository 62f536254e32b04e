import { dirname, join } from 'node:path';
import ts from 'typescript';
import { ownName } from '../../src/core';

/** The folders in which modules are searched. */
export interface ResolutionPlaces {
  /** Folder of the notebook; this folder may change while the resolver is in use. */
  baseDir: string;
  /** Folder of shardlab's package.json. */
  readonly installation: string;
  /** Folder of the cells' files, which exist only in memory. */
  readonly cellDir: string;
}

/**
 * Returns the checker's resolver, which finds the same modules as the importer at run time. It searches in the notebook's
 * folder and, for shardlab's own packages, also in the installation. Found modules are cached; missing modules are not cached,
 * because the user may install them later.
 */
export function createModuleResolver(
  options: ts.CompilerOptions,
  places: ResolutionPlaces,
  virtual: (file: string) => boolean,
): NonNullable<ts.LanguageServiceHost['resolveModuleNameLiterals']> {
  const { cellDir, installation } = places;
  const resolutions = new Map<string, ts.ResolvedModuleWithFailedLookupLocations>();
  const resolve = (specifier: string, file: string): ts.ResolvedModuleWithFailedLookupLocations => {
    const inCell = dirname(file) === cellDir;
    const cell = join(cellDir, specifier.replace(/\.mjs$/, '.mts'));
    if (inCell && specifier.startsWith('./') && virtual(cell)) {
      const resolvedModule = {
        resolvedFileName: cell,
        extension: ts.Extension.Mts,
        isExternalLibraryImport: false,
      };
      return { resolvedModule };
    }
    const from = inCell ? join(places.baseDir, 'notebook.mts') : file;
    const result = ts.resolveModuleName(specifier, from, options, ts.sys);
    const own = ownName(specifier);
    if (result.resolvedModule !== undefined || own === undefined) return result;
    return ts.resolveModuleName(own, join(installation, 'notebook.mts'), options, ts.sys);
  };
  return (literals, containingFile) =>
    literals.map(({ text }) => {
      const folder = dirname(containingFile);
      const key = `${folder === cellDir ? places.baseDir : folder}\u0000${text}`;
      const known = resolutions.get(key);
      if (known !== undefined) return known;
      const result = resolve(text, containingFile);
      if (result.resolvedModule !== undefined || folder !== cellDir) resolutions.set(key, result);
      return result;
    });
}

/** Returns a resolver of `/// <reference types>` and of the option `types`; the resolver caches every answer. */
export function createTypeReferenceResolver(
  options: ts.CompilerOptions,
): NonNullable<ts.LanguageServiceHost['resolveTypeReferenceDirectiveReferences']> {
  const resolutions = new Map<string, ts.ResolvedTypeReferenceDirectiveWithFailedLookupLocations>();
  return (references, containingFile) =>
    references.map((reference) => {
      const name = typeof reference === 'string' ? reference : reference.fileName;
      const key = `${dirname(containingFile)}\u0000${name}`;
      const known = resolutions.get(key);
      if (known !== undefined) return known;
      const result = ts.resolveTypeReferenceDirective(name, containingFile, options, ts.sys);
      resolutions.set(key, result);
      return result;
    });
}
