import { accessSync, constants, realpathSync } from 'node:fs';
import { delimiter, join } from 'node:path';

const VERSIONS = ['3', '', '3.14', '3.13', '3.12', '3.11', '3.10', '3.9'];

/** Returns every Python on the PATH, each program once: python3, then python, then names with a version such as python3.12. */
export function pythonsOnPath(env: NodeJS.ProcessEnv): string[] {
  const folders = (env.PATH ?? '').split(delimiter).filter((folder) => folder !== '');
  const seen = new Set<string>();
  return VERSIONS.flatMap((version) => folders.map((folder) => join(folder, `python${version}`))).filter(
    (path) => isNewProgram(path, seen),
  );
}

function isNewProgram(path: string, seen: Set<string>): boolean {
  try {
    accessSync(path, constants.X_OK);
    // Only links to folders are followed. The python of a virtual environment is a link to a program, but a Python of its own.
    const key = join(realpathSync(join(path, '..')), path.slice(path.lastIndexOf('/') + 1));
    if (seen.has(key)) return false;
    seen.add(key);
    return true;
  } catch {
    return false;
  }
}
