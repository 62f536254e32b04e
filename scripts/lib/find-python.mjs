import { join } from 'node:path';
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
