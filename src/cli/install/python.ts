import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { INSTALLATION } from './kernelspec-folder';

/** What a Python needs for notebooks with figures, as pip takes it. */
export const JUPYTER_PACKAGES = "jupyterlab 'plotly>=6,<8' 'numpy>=2' nbconvert";

/** A Python, its version and its packages. */
export interface PythonEnvironment {
  readonly python: string;
  readonly prefix: string;
  readonly version: string;
  /** Versions of the packages that notebooks use; null: not installed. */
  readonly packages: Readonly<Record<string, string | null>>;
}

const PACKAGES = ['jupyterlab', 'plotly', 'numpy', 'nbconvert'];

const PROBE = `
import json, sys
from importlib import metadata
def version(name):
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
print(json.dumps({"prefix": sys.prefix, "version": ".".join(map(str, sys.version_info[:3])),
                  "packages": {name: version(name) for name in sys.argv[1:]}}))
`;

/**
 * Returns the Python of Jupyter: SHARDLAB_PYTHON, else the first Python in the installation's environment, in the
 * active environment, or on the PATH.
 */
export function jupyterPython(env: NodeJS.ProcessEnv): string {
  const named = env.SHARDLAB_PYTHON;
  if (named !== undefined && named !== '') return named;
  const prefixes = [join(INSTALLATION, '.venv'), env.VIRTUAL_ENV, env.CONDA_PREFIX];
  const pythons = prefixes.flatMap((prefix) => (prefix === undefined ? [] : [join(prefix, 'bin', 'python')]));
  return pythons.find((path) => existsSync(path)) ?? 'python3';
}

/** Asks a Python for its version and packages; undefined: it does not run. */
export function describePython(
  python: string,
  env: NodeJS.ProcessEnv,
): Promise<PythonEnvironment | undefined> {
  return new Promise((resolve) => {
    execFile(python, ['-c', PROBE, ...PACKAGES], { env, timeout: 20_000 }, (error, stdout) => {
      resolve(error === null ? { python, ...JSON.parse(stdout) } : undefined);
    });
  });
}
