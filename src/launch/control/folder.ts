import { lstatSync, mkdtempSync, readdirSync, readlinkSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ShardlabError } from '../../core';
import { isRunning, processMark } from '../../training';

/**
 * Makes a folder for a job's sockets. Only this user may enter the folder (mode 0700).
 * Throws: IO when the folder for temporary files cannot be written.
 */
export function createJobFolder(): string {
  removeDeadFolders();
  const prefix = join(tmpdir(), `shardlab-${processMark()}-${pidNamespace()}-`);
  try {
    return mkdtempSync(prefix);
  } catch (cause) {
    throw new ShardlabError(
      'IO',
      `no folder could be made at ${prefix}XXXXXX for the job's sockets (${String(cause)}); set TMPDIR to a writable folder`,
      { cause },
    );
  }
}

/**
 * [Note: job folders] The name of a job's folder contains the mark of the process that made the folder. If that
 * process was killed with all its ranks, a later launch removes the folder.
 */
const JOB_FOLDER = /^shardlab-(\d+-\d+)-(\d+)-\w{6}$/;

/** Removes the folders of this user's jobs whose launchers have ended; skips folders that it cannot remove. */
function removeDeadFolders(): void {
  const parent = tmpdir();
  const namespace = pidNamespace();
  for (const name of entriesOf(parent)) {
    const [, mark = '', within] = JOB_FOLDER.exec(name) ?? [];
    // This process cannot know whether a process in another container is running.
    if (mark === '' || within !== namespace || isRunning(mark)) continue;
    const folder = join(parent, name);
    try {
      if (lstatSync(folder).uid === process.getuid?.()) removeJobFolder(folder);
    } catch {
      // Another launch has removed it.
    }
  }
}

function entriesOf(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}

/** Returns the number of this process's PID namespace; '0' if the system has only one. */
function pidNamespace(): string {
  try {
    return /\d+/.exec(readlinkSync('/proc/self/ns/pid'))?.[0] ?? '0';
  } catch {
    return '0';
  }
}

/** Longest path of a Unix socket: 107 bytes on Linux, 103 on macOS. */
const LONGEST_SOCKET_PATH = 103;

/** Returns zeromq's address of a socket in the folder; undefined if the path is too long, and on Windows. */
export function socketEndpoint(folder: string, name: string): string | undefined {
  const path = join(folder, name);
  if (process.platform === 'win32' || Buffer.byteLength(path) > LONGEST_SOCKET_PATH) return undefined;
  return `ipc://${path}`;
}

/** Removes a job's folder; a second call has no effect. */
export function removeJobFolder(folder: string): void {
  rmSync(folder, { recursive: true, force: true });
}
