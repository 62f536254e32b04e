import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fromBuild } from '../from-build.mjs';
import { root } from '../places.mjs';
import { StepError } from '../step.mjs';

const HOST = '127.0.0.1';
const GRACE_MILLISECONDS = 15_000;

/**
 * Starts a JupyterLab that shows `folder`, with settings of its own: a theme, and all cells in the page, also those that are not
 * visible. Returns its address, the token, and `end`, which ends the server and all its kernels.
 */
export async function startPictureLab({ python, env }, { folder, theme }) {
  const { answeringAddress } = fromBuild('cli/lab/answering-address');
  const { freePort } = fromBuild('cli/lab/free-port');
  const port = await freePort(8950, HOST);
  if (port === undefined)
    throw new StepError('The ports 8950 to 8999 are all in use.', 'end a program that uses one');
  const token = randomBytes(16).toString('hex');
  const settings = join(folder, '.settings');
  writeSettings(settings, theme);
  const child = spawn(
    python,
    [
      join(root, 'build', 'src', 'cli', 'lab', 'lab.py'),
      `--ip=${HOST}`,
      `--port=${port}`,
      '--no-browser',
      `--IdentityProvider.token=${token}`,
      `--ServerApp.root_dir=${folder}`,
      ...(process.getuid?.() === 0 ? ['--allow-root'] : []),
    ],
    {
      cwd: folder,
      env: {
        ...env,
        JUPYTERLAB_SETTINGS_DIR: settings,
        JUPYTERLAB_WORKSPACES_DIR: join(folder, '.workspaces'),
      },
      stdio: ['pipe', 'ignore', 'pipe'],
    },
  );
  child.stdin.on('error', () => {});
  let log = '';
  child.stderr.setEncoding('utf8').on('data', (text) => {
    log = (log + text).slice(-8000);
  });
  const early = new AbortController();
  const ended = new Promise((resolve) => child.once('close', resolve)).finally(() => early.abort());
  const end = async () => {
    child.stdin.end();
    const deadline = setTimeout(() => child.kill('SIGKILL'), GRACE_MILLISECONDS);
    await ended;
    clearTimeout(deadline);
  };
  try {
    return { url: await answeringAddress(`http://${HOST}:${port}`, early.signal), token, end };
  } catch {
    throw new StepError(`JupyterLab ended before it answered:\n${log.trim()}`);
  }
}

function writeSettings(folder, theme) {
  const settings = {
    '@jupyterlab/apputils-extension/themes': { theme },
    '@jupyterlab/notebook-extension/tracker': { windowingMode: 'none', recordTiming: false },
  };
  for (const [name, values] of Object.entries(settings)) {
    const file = join(folder, `${name}.jupyterlab-settings`);
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, JSON.stringify(values));
  }
}
