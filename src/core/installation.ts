import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';

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

/** shardlab's replacement for a package that the user has not installed, by the name that a cell imports. */
const STAND_INS: Readonly<Record<string, string>> = {
  tslab: 'shardlab/tslab',
  '@tensorflow/tfjs': 'shardlab/tf',
};

/** Returns the name that a package in a cell's import has in this installation; undefined if the installation lacks it. */
export function ownName(specifier: string): string | undefined {
  return /^shardlab(\/|$)/.test(specifier) ? specifier : STAND_INS[specifier];
}
