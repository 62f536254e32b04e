import { closeSync, openSync, readSync } from 'node:fs';

const BEGIN = 'version https://git-lfs.github.com/spec/';

/** Whether a file's text is that of a pointer, which Git-LFS leaves in place of a file. Source: Git-LFS' specification. */
export function isLfsPointer(text: string): boolean {
  return text.startsWith(BEGIN);
}

/** Whether a file is a Git-LFS pointer; reads only its first bytes. Throws: errors of the file system. */
export function isPointerFile(file: string): boolean {
  const bytes = Buffer.alloc(BEGIN.length);
  const descriptor = openSync(file, 'r');
  try {
    readSync(descriptor, bytes, 0, BEGIN.length, 0);
  } finally {
    closeSync(descriptor);
  }
  return isLfsPointer(bytes.toString('latin1'));
}
