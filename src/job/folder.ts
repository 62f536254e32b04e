import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ShardlabError } from '../core/errors';

/**
 * A folder that only this user may enter (mode 0700), for a job's sockets.
 * Throws: IO when the folder for temporary files cannot be written.
 */
export function createJobFolder(): string {
  const prefix = join(tmpdir(), 'shardlab-');
  try {
    return mkdtempSync(prefix);
  } catch (cause) {
    throw new ShardlabError(
      'IO',
      `no folder could be made at ${prefix}XXXXXX for the job's sockets (${String(cause)}); set TMPDIR to a folder that can be written`,
      { cause },
    );
  }
}

/** Longest path of a Unix socket: 107 bytes on Linux, 103 on macOS. */
const LONGEST_SOCKET_PATH = 103;

/** zeromq's address of a socket in the folder; undefined where such sockets are impossible. */
export function socketEndpoint(folder: string, name: string): string | undefined {
  const path = join(folder, name);
  if (process.platform === 'win32' || Buffer.byteLength(path) > LONGEST_SOCKET_PATH) return undefined;
  return `ipc://${path}`;
}

/** Removes a job's folder; a second time does nothing. */
export function removeJobFolder(folder: string): void {
  rmSync(folder, { recursive: true, force: true });
}
