import { closeSync, openSync, readSync } from 'node:fs';
import { ConfigError } from '../../../core';

const BEGIN = Buffer.from('version https://git-lfs.github.com/spec/');

/** Refuses a file that Git-LFS left in place of the data. Throws: CONFIG. Source: the specification of Git-LFS. */
export function refusePointer(file: string): void {
  const bytes = Buffer.alloc(BEGIN.length);
  const descriptor = openSync(file, 'r');
  try {
    readSync(descriptor, bytes, 0, BEGIN.length, 0);
  } finally {
    closeSync(descriptor);
  }
  if (!bytes.equals(BEGIN)) return;
  throw new ConfigError(
    `data: ${file} is a Git-LFS pointer, not the file itself; run \`git lfs pull\` in its folder`,
    { file },
  );
}
