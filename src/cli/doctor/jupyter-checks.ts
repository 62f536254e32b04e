import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { INSTALLATION, jupyterFolders, kernelspecFolder, readKernelspec } from '../install/kernelspec-folder';
import { describePython, jupyterPython, type PythonEnvironment } from '../install/python';
import type { Check } from './checks';

/** Checks Jupyter's Python, the packages that notebooks need, and our kernelspec. */
export async function checkJupyter(env: NodeJS.ProcessEnv): Promise<readonly Check[]> {
  const python = await describePython(jupyterPython(env), env);
  return [checkPackages(python, jupyterPython(env)), checkKernelspec(env, python?.prefix)];
}

function checkPackages(environment: PythonEnvironment | undefined, command: string): Check {
  const name = 'Jupyter';
  if (environment === undefined) {
    return {
      name,
      status: 'note',
      found: `${command} does not run`,
      advice: 'install Python 3, then npm start',
    };
  }
  const { python, version, packages } = environment;
  const present = Object.entries(packages).flatMap(([pkg, v]) => (v === null ? [] : [`${pkg} ${v}`]));
  const absent = Object.keys(packages).filter((pkg) => packages[pkg] === null);
  const finding = `${[`Python ${version}`, ...present].join(', ')} (${python})`;
  if (absent.length === 0)
    return { name, status: 'good', found: finding, facts: { python, version, packages } };
  return {
    name,
    status: 'note',
    found: `${finding}; without ${absent.join(', ')}`,
    advice: 'npm start makes an environment with these packages',
    facts: { python, version, packages },
  };
}

function checkKernelspec(env: NodeJS.ProcessEnv, prefix: string | undefined): Check {
  const name = 'kernelspec';
  const folders = [...jupyterFolders(env, prefix), join(INSTALLATION, 'build', 'jupyter')];
  const installed = folders.flatMap((folder) => {
    const spec = readKernelspec(folder);
    return spec === undefined ? [] : [{ folder: kernelspecFolder(folder), argv: spec.argv }];
  });
  const [first] = installed;
  if (first === undefined) {
    return { name, status: 'note', found: 'not installed', advice: 'npm start, or shardlab install --user' };
  }
  const missing = first.argv.slice(0, 2).filter((path) => !existsSync(path));
  if (missing.length > 0) {
    const finding = `${first.folder} names ${missing.join(', ')}, which does not exist`;
    return {
      name,
      status: 'bad',
      found: finding,
      advice: 'shardlab install --user in the clone that you use',
    };
  }
  const finding = installed.map(({ folder }) => folder).join(', ');
  return { name, status: 'good', found: finding, facts: { folders: installed.map(({ folder }) => folder) } };
}
