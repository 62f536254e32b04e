import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { cachedBuild, codeCachePath } from './code-cache';

/**
 * Whether this Node has a code cache ([Note: code cache]). With `build`, the cache must also be usable and written for this
 * build.
 */
export function hasCodeCache(build?: string): boolean {
  const path = codeCachePath();
  return build === undefined ? existsSync(path) : cachedBuild(path) === build;
}

/**
 * Writes the code cache in a separate process. Resolves with false if the cache cannot be written (a read-only installation, a
 * full disk); ranks then start without it.
 */
export async function saveCodeCache(build: string, signal?: AbortSignal): Promise<boolean> {
  try {
    const program = join(__dirname, '..', '..', '..', 'kernel', 'record-code.js');
    const child = spawn(process.execPath, [program, build], {
      stdio: 'ignore',
      killSignal: 'SIGKILL',
      ...(signal && { signal }),
    });
    const [code] = await once(child, 'exit');
    return code === 0;
  } catch {
    return false;
  }
}
