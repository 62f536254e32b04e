import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';

/** A file in the build of an installation into which nothing may be written: pip removes only the files that it has installed. */
export const READ_ONLY_MARK = 'read-only';

/**
 * Returns the folder for files that a build makes for itself when it runs, such as compiled code: the build, or a folder of the
 * user's cache for each build that is marked as read-only.
 */
export function generatedFolder(build: string): string {
  if (!existsSync(join(build, READ_ONLY_MARK))) return build;
  const key = createHash('sha256').update(build).digest('hex').slice(0, 12);
  return join(homedir(), '.cache', 'shardlab', key);
}
