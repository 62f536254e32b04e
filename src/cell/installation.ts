import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';

/** The folder that holds shardlab's package.json: the nearest one above this file. */
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

/** The name by which this installation has a package that cells import; undefined if it has none. */
export function ownName(specifier: string): string | undefined {
  return /^shardlab(\/|$)/.test(specifier) ? specifier : STAND_INS[specifier];
}
