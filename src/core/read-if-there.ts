import { readFileSync } from 'node:fs';

/** A file's text; undefined if it cannot be read, as a file that only some systems have. */
export function readIfThere(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return undefined;
  }
}
