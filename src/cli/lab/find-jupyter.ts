import { accessSync, constants, existsSync } from 'node:fs';
import { join } from 'node:path';
import { installAdvice } from '../../core';
import {
  INSTALLATION,
  isOurs,
  jupyterFolders,
  readKernelspec,
  userJupyterFolder,
  writeKernelspec,
} from '../install/kernelspec-folder';
import { describePython, JUPYTER_PACKAGES, jupyterPython, type PythonEnvironment } from '../install/python';
import { pythonsOnPath } from '../install/pythons-on-path';
import { SetUpError } from '../install/set-up-error';
import type { JupyterPlace } from './execute';

interface FoundJupyter extends JupyterPlace {
  /** The folder of the kernelspec, if it was written for this run. */
  readonly written?: string;
}

/**
 * Finds a Python with JupyterLab, and makes sure that its Jupyter has this installation's kernelspec, before all others of its
 * name. Throws: ENGINE (a SetUpError) if no Python has JupyterLab, plotly, numpy and nbconvert.
 */
export async function findJupyter(env: NodeJS.ProcessEnv): Promise<FoundJupyter> {
  const environment = await completePython(env);
  const folders = jupyterFolders(env, environment.prefix);
  const known = folders.find((folder) => {
    const spec = readKernelspec(folder);
    return spec !== undefined && isOurs(spec);
  });
  const data = known ?? newFolder(env);
  const written = known === undefined ? { written: writeKernelspec(data) } : {};
  const isVenv = existsSync(join(environment.prefix, 'pyvenv.cfg'));
  return {
    python: environment.python,
    env: {
      ...env,
      SHARDLAB_PYTHON: environment.python,
      JUPYTER_PATH: env.JUPYTER_PATH ? `${data}:${env.JUPYTER_PATH}` : data,
      // Ranks look for numpy's BLAS in the environment that this variable names.
      ...(isVenv ? { VIRTUAL_ENV: environment.prefix } : {}),
    },
    ...written,
  };
}

/** Returns the Python that is named or active, else the first one on the PATH that has all packages. */
async function completePython(env: NodeJS.ProcessEnv): Promise<PythonEnvironment> {
  const first = await describePython(jupyterPython(env), env);
  if (first !== undefined && lacks(first).length === 0) return first;
  const named = env.SHARDLAB_PYTHON;
  if (named) {
    const reason = first === undefined ? 'does not run' : `lacks ${lacks(first).join(', ')}`;
    throw new SetUpError(`${named} (SHARDLAB_PYTHON) ${reason}.`, [
      `${named} -m pip install ${JUPYTER_PACKAGES}`,
    ]);
  }
  for (const path of pythonsOnPath(env)) {
    const python = await describePython(path, env);
    if (python !== undefined && lacks(python).length === 0) return python;
  }
  throw new SetUpError('No Python on the PATH has JupyterLab, plotly, numpy and nbconvert.', [
    `python3 -m venv .venv && . .venv/bin/activate && pip install ${JUPYTER_PACKAGES}`,
    `or name a Python that has them: SHARDLAB_PYTHON=/path/to/python ${installAdvice().command('lab')}`,
  ]);
}

function lacks({ packages }: PythonEnvironment): readonly string[] {
  return Object.keys(packages).filter((name) => packages[name] === null);
}

/**
 * Returns the data folder for a kernelspec of this run: beside the build, because another installation may have its own in the
 * environment or in the user's folder; in the user's folder if the installation cannot be written.
 */
function newFolder(env: NodeJS.ProcessEnv): string {
  const build = join(INSTALLATION, 'build');
  return isWritable(build) ? join(build, 'jupyter') : userJupyterFolder(env);
}

function isWritable(folder: string): boolean {
  try {
    accessSync(folder, constants.W_OK);
    return true;
  } catch {
    return false;
  }
}
