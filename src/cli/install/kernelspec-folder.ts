import { copyFileSync, readdirSync, readFileSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { basename, dirname, join, relative, resolve } from 'node:path';
import { KERNEL_NAME, type KernelSpec, kernelSpec } from '../../cell';
import { installAdvice, makeFolder } from '../../core';

/** The folder of this installation's package.json. */
export const INSTALLATION = resolve(__dirname, '..', '..', '..', '..');

/** The kernel's program. */
export const KERNEL = join(INSTALLATION, 'build', 'kernel', 'main.js');

const RESOURCE_DIR = '{resource_dir}';

/** The pictures that Jupyter shows beside the kernel's name. */
const LOGOS = join(__dirname, 'logos');

/** Whether this installation is the one of a Python wheel, which has its own kernelspec. */
const IS_WHEEL = installAdvice().by === 'pip';

/** Returns the folder of our kernelspec in one of Jupyter's data folders. */
export function kernelspecFolder(jupyterData: string): string {
  return join(jupyterData, 'kernels', KERNEL_NAME);
}

/** Writes this installation's kernelspec into a Jupyter data folder (replaces an older one); returns its folder. */
export function writeKernelspec(jupyterData: string): string {
  const folder = kernelspecFolder(jupyterData);
  makeFolder(folder);
  const spec = kernelSpec({ node: process.execPath, main: kernelPath(folder) });
  writeFileSync(join(folder, 'kernel.json'), `${JSON.stringify(spec, null, 2)}\n`);
  for (const logo of readdirSync(LOGOS)) copyFileSync(join(LOGOS, logo), join(folder, logo));
  return folder;
}

/** Whether a kernelspec starts this installation's kernel. The wheel's kernelspec starts it by the wheel's command. */
export function isOurs({ argv }: KernelSpec): boolean {
  return argv.some((argument) => resolve(argument) === KERNEL) || (IS_WHEEL && argv[1] === 'kernel');
}

/**
 * Returns the path of the kernel's program for a kernelspec in `folder`: relative if program and kernelspec are in one
 * project, so that the project can be moved. Jupyter replaces {resource_dir} by the kernelspec's folder.
 */
function kernelPath(folder: string): string {
  const modules = dirname(INSTALLATION);
  const inProject =
    basename(modules) === 'node_modules' && realpathSync(folder).startsWith(join(dirname(modules), '/'));
  return inProject && realpathSync(folder) === folder
    ? `${RESOURCE_DIR}/${relative(folder, KERNEL)}`
    : KERNEL;
}

/** Reads our kernelspec in a Jupyter data folder; undefined: it is not installed there. */
export function readKernelspec(jupyterData: string): KernelSpec | undefined {
  const folder = kernelspecFolder(jupyterData);
  try {
    const spec: KernelSpec = JSON.parse(readFileSync(join(folder, 'kernel.json'), 'utf8'));
    return { ...spec, argv: spec.argv.map((argument) => argument.replace(RESOURCE_DIR, folder)) };
  } catch {
    return undefined;
  }
}

/** Deletes our kernelspec in a Jupyter data folder; returns whether it was there. */
export function removeKernelspec(jupyterData: string): boolean {
  const wasThere = readKernelspec(jupyterData) !== undefined;
  rmSync(kernelspecFolder(jupyterData), { recursive: true, force: true });
  return wasThere;
}

/** Returns the user's Jupyter data folder. Source: jupyter_core.paths.jupyter_data_dir. */
export function userJupyterFolder(
  env: NodeJS.ProcessEnv,
  platform: NodeJS.Platform = process.platform,
): string {
  const named = env.JUPYTER_DATA_DIR;
  if (named !== undefined && named !== '') return named;
  const home = env.HOME ?? homedir();
  if (platform === 'darwin') return join(home, 'Library', 'Jupyter');
  if (platform === 'win32') return join(env.APPDATA ?? home, 'jupyter');
  return join(env.XDG_DATA_HOME ?? join(home, '.local', 'share'), 'jupyter');
}

/** Returns the data folders that Jupyter searches, in its order; `prefix` is the environment's prefix, if there is one. */
export function jupyterFolders(env: NodeJS.ProcessEnv, prefix: string | undefined): readonly string[] {
  const listed = (env.JUPYTER_PATH ?? '').split(':').filter((folder) => folder !== '');
  const environment = prefix === undefined ? [] : [join(prefix, 'share', 'jupyter')];
  const folders = [
    ...listed,
    userJupyterFolder(env),
    ...environment,
    '/usr/local/share/jupyter',
    '/usr/share/jupyter',
  ];
  return [...new Set(folders)];
}
