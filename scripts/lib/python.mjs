import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describePython, requirementFiles } from './find-python.mjs';
import { fromBuild } from './from-build.mjs';
import { root } from './places.mjs';
import { StepError } from './step.mjs';

/**
 * Returns a Python that has all packages for `purpose` ('run' or 'test'): the Python that SHARDLAB_PYTHON names, else the
 * clone's environment, else a Python on the PATH that already has the packages, else a new environment in `state`. The result's
 * `jupyter` is the folder for this clone's kernelspec: in the clone's environment, else beside the build, never a global folder.
 */
export async function ensurePython(request, say) {
  const { purpose, state, env, clone = root, patienceSeconds } = request;
  const folder = join(state, '.venv');
  const outside = state === clone ? join(clone, 'build', 'jupyter') : join(state, 'jupyter');
  const use = (python, jupyter, text) => {
    say(text);
    return { python, jupyter };
  };
  if (env.SHARDLAB_PYTHON) {
    const python = await namedPython(env.SHARDLAB_PYTHON, purpose, env);
    return use(python, outside, `${python}, as SHARDLAB_PYTHON says`);
  }
  const inside = join(folder, 'share', 'jupyter');
  if (await isReady(folder, purpose, env)) return use(venvPython(folder), inside, 'up to date');
  const inClone = join(clone, '.venv');
  if (state !== clone && (await isReady(inClone, purpose, env))) {
    return use(venvPython(inClone), outside, 'up to date (the environment in the clone)');
  }
  const pythons = await usablePythons(purpose, env);
  const complete = existsSync(folder) ? undefined : pythons.find(({ missing }) => missing.length === 0);
  if (complete) return use(complete.executable, outside, `${complete.executable} has all requirements`);
  return use(venvPython(folder), inside, await makeOwn(folder, pythons, env, patienceSeconds));
}

async function namedPython(command, purpose, env) {
  const found = await describePython(command, purpose, env);
  if (!found) {
    throw new StepError(
      `SHARDLAB_PYTHON is ${command}, but that is not a Python 3.9 or newer that can be run.`,
      'correct it, or unset it: then an environment is made in the clone',
    );
  }
  if (found.missing.length > 0) {
    const files = requirementFiles(purpose).map((file) => `-r ${file}`);
    throw new StepError(
      `${found.executable} (SHARDLAB_PYTHON) lacks ${found.missing.join(', ')}.`,
      `${found.executable} -m pip install ${files.join(' ')}`,
      'or unset SHARDLAB_PYTHON: then an environment is made in the clone',
    );
  }
  return found.executable;
}

async function usablePythons(purpose, env) {
  const found = await Promise.all(
    fromBuild('cli/install/pythons-on-path')
      .pythonsOnPath(env)
      .map((path) => describePython(path, purpose, env)),
  );
  const usable = found.filter((python) => python !== undefined);
  const unique = [...new Map(usable.map((python) => [python.executable, python])).values()];
  if (unique.length > 0) return unique;
  throw new StepError(
    'No Python 3.9 or newer was found (python3 and python on the PATH); JupyterLab needs one.',
    'Debian, Ubuntu: sudo apt-get install python3 python3-venv',
    'macOS: brew install python',
    'or use another Python: SHARDLAB_PYTHON=/path/to/python npm start',
    'without notebooks: `npm run build`, then `npx shardlab run tiny`',
  );
}

async function makeOwn(folder, pythons, env, patienceSeconds) {
  const isWhole = existsSync(venvPython(folder)) && (await describePython(venvPython(folder), 'run', env));
  const commands = pythons.map(({ command }) => command);
  const how = isWhole ? 'completed' : `made ${await makeVenv(commands, folder, env)}`;
  await install(venvPython(folder), env, patienceSeconds);
  mkdirSync(join(folder, 'share', 'jupyter'), { recursive: true });
  writeFileSync(join(folder, '.shardlab'), requirementsHash());
  return how;
}

function venvPython(folder) {
  return fromBuild('cli/install/make-venv').venvPython(folder);
}

function makeVenv(pythons, folder, env) {
  return fromBuild('cli/install/make-venv').makeVenv(pythons, folder, { env }).catch(asStepError);
}

function install(python, env, patienceSeconds) {
  return fromBuild('cli/install/pip')
    .installRequirements(python, requirementFiles('test'), {
      packagesName: 'JupyterLab, plotly and numpy',
      env,
      patienceSeconds,
    })
    .catch(asStepError);
}

function asStepError(error) {
  if (error.advice === undefined) throw error;
  throw new StepError(
    error.failure,
    ...error.advice,
    'or use a Python that has JupyterLab, plotly and numpy: SHARDLAB_PYTHON=/path/to/python npm start',
  );
}

/** Whether the clone's environment has the packages that the requirement files name now, and its Python still runs. */
async function isReady(folder, purpose, env) {
  const stamp = join(folder, '.shardlab');
  if (!existsSync(stamp) || readFileSync(stamp, 'utf8') !== requirementsHash()) return false;
  const found = await describePython(venvPython(folder), purpose, env);
  return found !== undefined && found.missing.length === 0;
}

function requirementsHash() {
  const hash = createHash('sha256');
  for (const file of requirementFiles('test')) hash.update(readFileSync(file));
  return hash.digest('hex');
}
