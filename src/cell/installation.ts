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

/** Packages that this package replaces if the user has not installed them, by the name in the cell's import. */
const STAND_INS: Readonly<Record<string, string>> = {
  tslab: 'shardlab/tslab',
  '@tensorflow/tfjs': 'shardlab/tf',
};

/** Returns the name under which this installation has the package that a cell imports; undefined if it has none. */
export function ownName(specifier: string): string | undefined {
  return /^shardlab(\/|$)/.test(specifier) ? specifier : STAND_INS[specifier];
}
