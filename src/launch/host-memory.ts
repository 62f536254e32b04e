import { freemem } from 'node:os';
import { type Bytes, readIfThere } from '../core';

/** Returns a file's text; undefined if the file cannot be read. Tests pass their own function. */
export type ReadText = (path: string) => string | undefined;

const CGROUPS = '/sys/fs/cgroup';

/**
 * Returns the bytes that new processes may use. In a container, cached files count as used memory, although the kernel
 * frees them when needed. So this function adds the bytes of cached files, up to the free memory of the whole machine.
 */
export function availableMemory(read: ReadText = readIfThere): Bytes {
  return Math.min(freemem(), process.availableMemory() + cachedFiles(read));
}

/**
 * Returns how often the kernel has killed a process of this container (or machine) because memory ran out; undefined if the
 * system does not report it.
 */
export function countOomKills(read: ReadText = readIfThere): number | undefined {
  const places = folders(read).flatMap((folder) => [
    `${folder}/memory.events`,
    `${folder}/memory.oom_control`,
  ]);
  return firstNumber([...places, '/proc/vmstat'], /^oom_kill (\d+)$/m, read);
}

/** Returns the bytes of the container's cached files that no process maps or uses. */
export function cachedFiles(read: ReadText = readIfThere): Bytes {
  const places = folders(read).map((folder) => `${folder}/memory.stat`);
  return (
    firstNumber(places, /^total_inactive_file (\d+)$/m, read) ??
    firstNumber(places, /^inactive_file (\d+)$/m, read) ??
    0
  );
}

/**
 * Returns the cgroup folders of this process. In a container, /proc/self/cgroup may show a path of the host, although
 * only the container's own folder is mounted.
 */
function folders(read: ReadText): string[] {
  const lines = (read('/proc/self/cgroup') ?? '').split('\n').map((line) => line.split(':'));
  return lines.flatMap(([, controllers = '', path = '']) => {
    if (controllers === '' && path !== '') return [`${CGROUPS}${path}`, CGROUPS];
    if (controllers.split(',').includes('memory')) return [`${CGROUPS}/memory${path}`, `${CGROUPS}/memory`];
    return [];
  });
}

function firstNumber(paths: readonly string[], pattern: RegExp, read: ReadText): number | undefined {
  for (const path of paths) {
    const text = pattern.exec(read(path) ?? '')?.[1];
    if (text !== undefined) return Number(text);
  }
  return undefined;
}
