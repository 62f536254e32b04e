import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { KERNEL_NAME, type KernelSpec, kernelSpec } from '../../cell/kernelspec';

/** The folder of this installation's package.json. */
export const INSTALLATION = resolve(__dirname, '..', '..', '..', '..');

/** The folder of our kernelspec below one of Jupyter's data folders. */
export function kernelspecFolder(jupyterData: string): string {
  return join(jupyterData, 'kernels', KERNEL_NAME);
}

/** Writes this installation's kernelspec below a Jupyter data folder, over an older one; gives its folder. */
export function writeKernelspec(jupyterData: string): string {
  const folder = kernelspecFolder(jupyterData);
  mkdirSync(folder, { recursive: true });
  const spec = kernelSpec({ node: process.execPath, installation: INSTALLATION });
  writeFileSync(join(folder, 'kernel.json'), `${JSON.stringify(spec, null, 2)}\n`);
  return folder;
}

/** Reads our kernelspec below a Jupyter data folder; undefined when none is installed there. */
export function readKernelspec(jupyterData: string): KernelSpec | undefined {
  try {
    return JSON.parse(readFileSync(join(kernelspecFolder(jupyterData), 'kernel.json'), 'utf8'));
  } catch {
    return undefined;
  }
}

/** Deletes our kernelspec below a Jupyter data folder; whether one was there. */
export function removeKernelspec(jupyterData: string): boolean {
  const found = readKernelspec(jupyterData) !== undefined;
  rmSync(kernelspecFolder(jupyterData), { recursive: true, force: true });
  return found;
}
