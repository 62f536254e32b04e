import { accessSync, constants, realpathSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { root } from './places.mjs';
import { capture } from './run.mjs';

const LEAST = [3, 9];
const SCRIPTS = join(root, 'scripts', 'python');

/** Returns the requirement files of a purpose: 'run' or 'test'. */
export function requirementFiles(purpose) {
  const names = purpose === 'test' ? ['requirements.txt', 'requirements-test.txt'] : ['requirements.txt'];
  return names.map((name) => join(SCRIPTS, name));
}

/**
 * Returns { command, executable, version, missing } of a Python; `missing` lists the requirements that it does not meet.
 * Returns undefined if the Python cannot be run or is too old.
 */
export async function describePython(command, purpose, env) {
  const result = await capture(command, [join(SCRIPTS, 'probe.py'), ...requirementFiles(purpose)], { env });
  if (result.code !== 0) return undefined;
  const found = JSON.parse(result.stdout);
  const [major, minor] = found.version;
  return major > LEAST[0] || (major === LEAST[0] && minor >= LEAST[1]) ? { command, ...found } : undefined;
}

/** Returns every Python on the PATH, in the order of the PATH, each program once. */
export function pythonsOnPath(env) {
  const names = ['python3', 'python', 'python3.13', 'python3.12', 'python3.11', 'python3.10', 'python3.9'];
  const folders = (env.PATH ?? '').split(delimiter).filter((folder) => folder !== '');
  const seen = new Set();
  return names
    .flatMap((name) => folders.map((folder) => join(folder, name)))
    .filter((path) => isNewProgram(path, seen));
}

function isNewProgram(path, seen) {
  try {
    accessSync(path, constants.X_OK);
    // Only links of folders are resolved: a virtual environment's python is a link to another program, but another Python.
    const key = join(realpathSync(join(path, '..')), path.slice(path.lastIndexOf('/') + 1));
    if (seen.has(key)) return false;
    seen.add(key);
    return true;
  } catch {
    return false;
  }
}
