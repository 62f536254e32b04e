import { readFileSync } from 'node:fs';

/** Returns a file's text; undefined if the file cannot be read (some systems lack some files of /proc and /sys). */
export function readIfThere(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return undefined;
  }
}
