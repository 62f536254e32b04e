import { readdirSync, readFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { repositoryRoot } from '../support/paths';
import type { Sources } from './layers';

/** The clone's folder. */
export const ROOT = repositoryRoot();

/** All TypeScript files below these folders of the clone, without what AssemblyScript compiles. */
export function readSources(...folders: readonly string[]): Sources {
  return new Map([...readAllSources(...folders)].filter(([path]) => !path.includes('/assembly/')));
}

/** All TypeScript files below these folders of the clone. */
export function readAllSources(...folders: readonly string[]): Sources {
  return readFiles(folders, '.ts');
}

/** All files below these folders of the clone whose names end like this. */
export function readFiles(folders: readonly string[], ending: string): Sources {
  const sources = new Map<string, string>();
  for (const folder of folders) {
    for (const entry of readdirSync(join(ROOT, folder), { recursive: true, withFileTypes: true })) {
      const path = join(entry.parentPath, entry.name);
      if (!entry.isFile() || !entry.name.endsWith(ending)) continue;
      sources.set(relative(ROOT, path), readFileSync(path, 'utf8'));
    }
  }
  return sources;
}
