import { closeSync, readSync } from 'node:fs';
import { openRegularFile, weightFiles } from '../../../core';
import { fileError } from './file-system';

const ZIP_MAGIC = 'PK\u0003\u0004';
const LFS_MAGIC = 'version ';
/** Number of bytes at a file's beginning that are enough to recognize the file's format. */
export const MAGIC_BYTES = 8;

/**
 * Refuses torch pickles and Git-LFS pointers, which it recognizes by the file's name and first bytes, which it reads unless they are
 * given. Throws: IO, with the
 * file's name and a remedy: the command that converts a torch pickle, or `git lfs pull`.
 */
export function refuseOtherFormats(file: string, firstBytes: Uint8Array = beginningOf(file)): void {
  const magic = Buffer.from(firstBytes).toString('latin1', 0, MAGIC_BYTES);
  if (magic === LFS_MAGIC) {
    throw fileError(`${file} is a Git-LFS pointer, not the file itself; run \`git lfs pull\` in its folder`, {
      file,
    });
  }
  if (!weightFiles.pickleName.test(file) && !magic.startsWith(ZIP_MAGIC) && !beginsAsPickle(firstBytes))
    return;
  throw fileError(
    `${file} is a torch pickle, which can run any code when it is read, so it is not read here; ` +
      `convert it on a machine with PyTorch: ${weightFiles.conversionLine(file)}`,
    { file },
  );
}

function beginningOf(file: string): Uint8Array {
  const bytes = Buffer.alloc(MAGIC_BYTES);
  const opened = openRegularFile(file);
  try {
    return bytes.subarray(0, readSync(opened, bytes));
  } finally {
    closeSync(opened);
  }
}

/**
 * Whether bytes begin a pickle of protocol 2 to 5. A safetensors file can begin with the same two bytes, but its bytes 5 to 8
 * are 0.
 */
function beginsAsPickle(bytes: Uint8Array): boolean {
  const [first = 0, protocol = 0] = bytes;
  const isLength = bytes.subarray(4, MAGIC_BYTES).every((byte) => byte === 0);
  return first === 0x80 && protocol >= 2 && protocol <= 5 && !isLength;
}
