import { closeSync, openSync, readSync } from 'node:fs';
import { ShardlabError } from '../../core';
import type { TokenArray } from './prepared';

type Stored = TokenArray | Float64Array;

/** Opens a file of numbers while `work` reads parts of it into arrays. Throws: IO if the file ends before a part. */
export function withFile(file: string, work: (read: (target: Stored, from: number) => void) => void): void {
  const descriptor = openSync(file, 'r');
  try {
    work((target, from) => {
      const bytes = readSync(descriptor, target, 0, target.byteLength, from * target.BYTES_PER_ELEMENT);
      if (bytes === target.byteLength) return;
      throw new ShardlabError(
        'IO',
        `${file} ends early: ${bytes} of ${target.byteLength} bytes were read; launch the job again`,
        {
          details: { file },
        },
      );
    });
  } finally {
    closeSync(descriptor);
  }
}
