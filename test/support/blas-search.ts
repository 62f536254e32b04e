import { execFileSync } from 'node:child_process';
import { findBlas } from '../../src/backend/blas';
import { sitePackages } from '../../src/job/launch/site-packages';
import { repositoryRoot } from './paths';

let folders: readonly string[] | undefined;

/**
 * Folders in which numpy's BLAS may lie: the project's own environment's, then the first python3's of the path. Python is
 * asked once per process.
 */
export function blasSearchPaths(): readonly string[] {
  folders ??= [...sitePackages(process.env, repositoryRoot()), ...pythonPackages()];
  return folders;
}

/** Why tests with a BLAS cannot run here; false where they can. */
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
