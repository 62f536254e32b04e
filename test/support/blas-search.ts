import { execFileSync } from 'node:child_process';
import { findBlas } from '../../src/engine/backend/blas';
import { sitePackages } from '../../src/launch/site-packages';
import { repositoryRoot } from './paths';

let folders: readonly string[] | undefined;

/**
 * Folders that may contain numpy's BLAS: those of the project's own environment, then of the path's first python3. Python is
 * called once per process.
 */
export function blasSearchPaths(): readonly string[] {
  folders ??= [...sitePackages(process.env, repositoryRoot()), ...pythonPackages()];
  return folders;
}

/** The reason why tests with a BLAS cannot run here; false if they can. */
export function whyNoBlas(): string | false {
  const found = findBlas({ blas: 'auto', searchPaths: blasSearchPaths() });
  return found.library === null ? `no BLAS here: ${found.reason}` : false;
}

function pythonPackages(): string[] {
  const where = 'import numpy, os; print(os.path.dirname(os.path.dirname(numpy.__file__)))';
  try {
    return [
      execFileSync('python3', ['-c', where], {
        encoding: 'utf8',
        stdio: ['ignore', 'pipe', 'ignore'],
      }).trim(),
    ];
  } catch {
    return []; // no python3, or one without numpy
  }
}
