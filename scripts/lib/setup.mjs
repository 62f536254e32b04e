import { existsSync, mkdirSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { ensureBuild } from './build.mjs';
import { ensureCodeCache } from './code-cache.mjs';
import { fromBuild } from './from-build.mjs';
import { linkSelf } from './link.mjs';
import { ensurePackages } from './packages.mjs';
import { homeVariables, stateFolder } from './places.mjs';
import { ensurePython } from './python.mjs';
import { ensureSnapshot } from './snapshot.mjs';
import { step } from './step.mjs';

/**
 * Prepares the clone for its commands: packages, build, the link to itself, Python environment, kernelspec.
 * Returns { state, env, python }: the folder for written files, the environment for child processes, and the Python
 * (undefined if `purpose` is 'build' or `withPython` is false).
 */
export async function setUp(purpose, { withPython = true } = {}) {
  const state = stateFolder();
  const moved = homeVariables(state);
  for (const folder of Object.values(moved)) mkdirSync(folder, { recursive: true });
  const env = { ...process.env, ...moved };
  await step('npm packages', (say) => ensurePackages(say, env));
  await step('build', ensureBuild);
  await step('link to itself', linkSelf);
  if (purpose !== 'build') {
    await step('compiler snapshot', ensureSnapshot);
    await step('code cache', ensureCodeCache);
  }
  if (!withPython) return { state, env, python: undefined };
  const { python, jupyter } = await step('Python environment', (say) =>
    ensurePython({ purpose, state, env }, say),
  );
  await step('kernelspec', (say) => say(writeKernelspec(jupyter)));
  return { state, python, env: { ...env, ...pythonVariables(python, jupyter) } };
}

/**
 * Returns environment variables that make child processes find this Python and this clone's kernel first. VIRTUAL_ENV, which an
 * activated environment also sets, is the folder in which ranks look for numpy's BLAS.
 */
function pythonVariables(python, jupyter) {
  const path = process.env.JUPYTER_PATH;
  const prefix = dirname(dirname(python));
  return {
    SHARDLAB_PYTHON: python,
    JUPYTER_PATH: path ? `${jupyter}:${path}` : jupyter,
    ...(existsSync(join(prefix, 'pyvenv.cfg')) ? { VIRTUAL_ENV: prefix } : {}),
  };
}

function writeKernelspec(jupyter) {
  mkdirSync(jupyter, { recursive: true });
  return fromBuild('cli/install/kernelspec-folder').writeKernelspec(jupyter);
}
