import { ConfigError, weightFiles } from '../../../core';

/** Refuses a file that Git-LFS left in place of the data. Throws: CONFIG. */
export function refusePointer(file: string): void {
  if (!weightFiles.isPointerFile(file)) return;
  throw new ConfigError(
    `data: ${file} is a Git-LFS pointer, not the file itself; run \`git lfs pull\` in its folder`,
    { file },
  );
}
