import { spawn } from 'node:child_process';
import { createWriteStream, existsSync, mkdirSync, rmSync } from 'node:fs';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { answeringAddress } from './answering.mjs';
import { freePort } from './free-port.mjs';
import { root } from './places.mjs';
import { StepError } from './step.mjs';

const NOTEBOOK = 'notebooks/00-quickstart.ipynb';
/** Matches the user's option for another folder than the clone; JupyterLab accepts this option only once. */
const OWN_FOLDER = /^--(ServerApp\.root_dir|notebook-dir)\b/;
const GRACE_MILLISECONDS = 15_000;

/** Starts JupyterLab with the quickstart and returns when JupyterLab has ended; Ctrl-C ends it and all its kernels. */
export async function runJupyterLab(
  { python, state, env },
  { ip = 'localhost', port = 8888, browser, rest },
) {
  const free = await choosePort(port, ip);
  adviseReach(ip, free);
  const log = join(state, state === root ? 'build' : '', 'jupyter.log');
  mkdirSync(join(log, '..'), { recursive: true });
  const args = [
    join(root, 'scripts', 'python', 'lab.py'),
    `--ip=${ip}`,
    `--port=${free}`,
    ...(browser ? [] : ['--no-browser']),
    ...(process.getuid?.() === 0 ? ['--allow-root'] : []),
    ...(rest.some((option) => OWN_FOLDER.test(option)) ? [] : cloneOptions()),
    ...rest,
  ];
  // The server has its own process group: Ctrl-C in the terminal reaches only this process, which then ends the server.
  const child = spawn(python, args, { cwd: root, env, stdio: ['pipe', 'pipe', 'pipe'], detached: true });
  return watch(child, log);
}

/** Returns the options that show the clone and open the quickstart. */
function cloneOptions() {
  const opened = existsSync(join(root, NOTEBOOK)) ? [`--LabApp.default_url=/lab/tree/${NOTEBOOK}`] : [];
  return [`--ServerApp.root_dir=${root}`, ...opened];
}

async function choosePort(wanted, ip) {
  const host = { localhost: '127.0.0.1', '*': '0.0.0.0', '': '0.0.0.0' }[ip] ?? ip;
  let free;
  try {
    free = await freePort(wanted, host);
  } catch (error) {
    throw new StepError(
      `This machine cannot listen on ${ip}: ${error.message}`,
      'name one of its addresses: npm start -- --ip ADDRESS',
    );
  }
  if (free === undefined) {
    throw new StepError(
      `The ports ${wanted} to ${wanted + 49} are all in use.`,
      'name another port: npm start -- --port N',
    );
  }
  if (free !== wanted) process.stdout.write(`port ${wanted} is in use; JupyterLab uses port ${free}\n`);
  return free;
}

/** Prints how a browser on another machine can reach a server that listens only on this machine. */
function adviseReach(ip, port, env = process.env) {
  if (ip !== 'localhost' && ip !== '127.0.0.1') return;
  const advice = (text) => process.stdout.write(`${text}\n`);
  if (env.SSH_CONNECTION) {
    advice(
      `over SSH: on your own machine, ssh -L ${port}:localhost:${port} ${hostname()}, then open the address below`,
    );
  } else if (existsSync('/.dockerenv') || existsSync('/run/.containerenv')) {
    advice(
      'in a container: publish the port and run `npm start -- --ip 0.0.0.0`; then JupyterLab is reachable from outside',
    );
  }
}

/** Writes the server's log, prints its address when it answers, and its errors, and ends the server on a signal. */
function watch(child, log) {
  const file = privateLog(log);
  file.on('error', (error) => process.stdout.write(`the log cannot be written: ${error.message}\n`));
  let tail = '';
  let announced = false;
  let asked = false;
  const ended = new AbortController();
  const announce = async (written) => {
    try {
      const url = await answeringAddress(written, ended.signal);
      if (!asked) process.stdout.write(`\nJupyterLab: ${url}\n(log: ${log}; Ctrl-C ends it)\n`);
    } catch {
      // JupyterLab has ended before it answered; `close` below says so.
    }
  };
  const show = (text) => {
    file.write(text);
    tail = (tail + text).slice(-8000);
    const url = !announced && tail.match(/running at:\s*(?:\[.*?\] )?\s*(https?:\/\/\S+)/);
    if (!url) return;
    announced = true;
    void announce(url[1]);
  };
  child.stdout.setEncoding('utf8').on('data', show);
  child.stderr.setEncoding('utf8').on('data', show);
  child.stdin.on('error', () => {});
  return new Promise((resolve, reject) => {
    let deadline;
    const end = () => {
      if (asked) return;
      asked = true;
      process.stdout.write('\nending JupyterLab and its kernels … ');
      child.stdin.end();
      deadline = setTimeout(() => killGroup(child.pid), GRACE_MILLISECONDS);
    };
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, end);
    child.once('error', reject);
    child.once('close', (code) => {
      clearTimeout(deadline);
      ended.abort();
      if (asked) process.stdout.write('ended\n');
      if (asked || code === 0) resolve(0);
      else reject(new StepError(`JupyterLab ended with status ${code}:\n${tail.trim()}`, `its log: ${log}`));
    });
  });
}

/** Opens a new log that only this user can read, because the server writes its token into it. */
function privateLog(path) {
  // The mode counts only for a new file, and an earlier version of this script made files that everybody could read.
  try {
    rmSync(path, { force: true });
  } catch {
    // The stream reports that the file cannot be made.
  }
  return createWriteStream(path, { flags: 'wx', mode: 0o600 });
}

function killGroup(pid) {
  try {
    process.kill(-pid, 'SIGKILL');
  } catch (error) {
    if (error.code !== 'ESRCH') throw error;
  }
}
