import { homedir } from 'node:os';
import { join } from 'node:path';

/** The user's own Jupyter data folder. Source: jupyter_core.paths.jupyter_data_dir. */
export function userJupyterFolder(
  env: NodeJS.ProcessEnv,
  platform: NodeJS.Platform = process.platform,
): string {
  const named = env.JUPYTER_DATA_DIR;
  if (named !== undefined && named !== '') return named;
  const home = env.HOME ?? homedir();
  if (platform === 'darwin') return join(home, 'Library', 'Jupyter');
  if (platform === 'win32') return join(env.APPDATA ?? home, 'jupyter');
  return join(env.XDG_DATA_HOME ?? join(home, '.local', 'share'), 'jupyter');
}

/** The data folders that Jupyter searches, in its order; `prefix` is the environment's prefix, if there is one. */
export function jupyterFolders(env: NodeJS.ProcessEnv, prefix: string | undefined): readonly string[] {
  const listed = (env.JUPYTER_PATH ?? '').split(':').filter((folder) => folder !== '');
  const environment = prefix === undefined ? [] : [join(prefix, 'share', 'jupyter')];
  const folders = [
    ...listed,
    userJupyterFolder(env),
    ...environment,
    '/usr/local/share/jupyter',
    '/usr/share/jupyter',
  ];
  return [...new Set(folders)];
}
