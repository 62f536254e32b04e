import { createHash } from 'node:crypto';
import { existsSync, lstatSync, mkdirSync, mkdtempSync, readdirSync, rmdirSync, statSync } from 'node:fs';
import { homedir, tmpdir, userInfo } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { StepError } from './step.mjs';

/** The clone's folder. */
export const root = dirname(dirname(dirname(fileURLToPath(import.meta.url))));

/** Whether a file can be made in `folder`; if the folder does not exist, whether it can be made. */
export function isWritable(folder) {
  try {
    statSync(folder);
  } catch {
    const parent = dirname(folder);
    return parent !== folder && isWritable(parent);
  }
  try {
    rmdirSync(mkdtempSync(join(folder, '.shardlab-')));
    return true;
  } catch {
    return false;
  }
}

/** Returns the folder for this clone's generated files except the build: the clone, the user's cache, or a temporary folder. */
export function stateFolder(clone = root, env = process.env) {
  if (isWritable(clone)) return clone;
  const key = createHash('sha256').update(clone).digest('hex').slice(0, 12);
  for (const folder of [
    join(cacheFolder(env), 'shardlab', key),
    join(tmpdir(), `shardlab-${userInfo().uid}-${key}`),
  ]) {
    if (isWritable(folder) && isPrivate(folder)) return folder;
  }
  throw new StepError(
    `${clone}, ${cacheFolder(env)} and ${tmpdir()} are not writable, or others can write to their folders.`,
    'copy the clone to a folder of your own, or set XDG_CACHE_HOME or TMPDIR to such a folder',
  );
}

/** Makes a folder; returns whether only this user can write to it. In a temporary folder, others could have made it, or a link in its place. */
function isPrivate(folder) {
  try {
    mkdirSync(folder, { recursive: true, mode: 0o700 });
  } catch {
    return false; // for example, a link to nothing
  }
  const found = lstatSync(folder);
  return found.isDirectory() && found.uid === userInfo().uid && (found.mode & 0o022) === 0;
}

function cacheFolder(env) {
  if (env.XDG_CACHE_HOME) return env.XDG_CACHE_HOME;
  const home = env.HOME || homedir();
  return process.platform === 'darwin' ? join(home, 'Library', 'Caches') : join(home, '.cache');
}

/**
 * Returns environment variables that make programs write to another folder if HOME is not writable; an empty object if HOME is
 * writable. Variables that the user has set are not changed.
 */
export function homeVariables(state, env = process.env) {
  const home = env.HOME || homedir();
  if (
    isWritable(home) &&
    ['.jupyter', '.local', '.ipython', '.npm'].every((name) => isWritable(join(home, name)))
  ) {
    return {};
  }
  const base = state === root ? join(root, 'build', 'home') : join(state, 'home');
  const moved = {
    JUPYTER_CONFIG_DIR: join(base, 'jupyter-config'),
    JUPYTER_DATA_DIR: join(base, 'jupyter-data'),
    JUPYTER_RUNTIME_DIR: join(base, 'jupyter-runtime'),
    JUPYTERLAB_SETTINGS_DIR: join(base, 'lab-settings'),
    JUPYTERLAB_WORKSPACES_DIR: join(base, 'lab-workspaces'),
    IPYTHONDIR: join(base, 'ipython'),
    npm_config_cache: join(base, 'npm-cache'),
    PIP_CACHE_DIR: join(base, 'pip-cache'),
  };
  return Object.fromEntries(Object.entries(moved).filter(([name]) => !env[name]));
}

/** Returns all files below a folder, sorted; an empty list if the folder does not exist. */
export function filesBelow(folder) {
  if (!existsSync(folder)) return [];
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath ?? entry.path, entry.name))
    .sort();
}
