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
