import { type ChildProcessByStdio, spawn } from 'node:child_process';
import { createWriteStream, existsSync, mkdirSync, rmSync, type WriteStream } from 'node:fs';
import { hostname } from 'node:os';
import { dirname, join } from 'node:path';
import type { Readable, Writable } from 'node:stream';
import { SetUpError } from '../install/set-up-error';
import { answeringAddress } from './answering-address';
import type { JupyterPlace } from './execute';
import { freePort } from './free-port';

/** The program that runs JupyterLab until its standard input ends. */
const PROGRAM = join(__dirname, 'lab.py');
/** Matches the user's option for another folder; JupyterLab accepts this option only once. */
const OWN_FOLDER = /^--(ServerApp\.root_dir|notebook-dir)\b/;
const GRACE_MILLISECONDS = 15_000;

type Server = ChildProcessByStdio<Writable, Readable, Readable>;

export interface LabOptions {
  /** The folder that JupyterLab shows. */
  readonly folder: string;
  /** The notebook that it opens, relative to the folder. */
  readonly notebook: string;
  /** The file of the server's log. */
  readonly log: string;
  /** Default: localhost. */
  readonly ip?: string | undefined;
  /** The first port that is tried. Default 8888. */
  readonly port?: number | undefined;
  readonly browser: boolean;
  /** Further options for JupyterLab. */
  readonly rest: readonly string[];
  /** The command that starts JupyterLab, to which advice adds options. */
  readonly command: string;
  /** Writes a text for the user. */
  say(text: string): void;
}

/**
 * Starts JupyterLab with a notebook, and returns 0 when JupyterLab has ended; Ctrl-C ends it and all its kernels. Throws: ENGINE (a
 * SetUpError) if no port is free, or if JupyterLab ends with an error.
 */
export async function runJupyterLab({ python, env }: JupyterPlace, options: LabOptions): Promise<number> {
  const { folder, ip = 'localhost', log, browser, rest } = options;
  const free = await choosePort(ip, options);
  adviseReach(ip, free, env, options);
  mkdirSync(dirname(log), { recursive: true });
  const args = [
    PROGRAM,
    `--ip=${ip}`,
    `--port=${free}`,
    ...(browser ? [] : ['--no-browser']),
    ...(process.getuid?.() === 0 ? ['--allow-root'] : []),
    ...(rest.some((option) => OWN_FOLDER.test(option)) ? [] : folderOptions(options)),
    ...rest,
  ];
  // The server has its own process group: Ctrl-C in the terminal reaches only this process, which then ends the server.
  const child = spawn(python, args, { cwd: folder, env, stdio: ['pipe', 'pipe', 'pipe'], detached: true });
  return watch(child, options);
}

/** Whether the user can see a browser that is opened on this machine. */
export function hasDisplay(env: NodeJS.ProcessEnv): boolean {
  if (env.SSH_CONNECTION || env.SSH_TTY) return false;
  return process.platform === 'darwin' || Boolean(env.DISPLAY || env.WAYLAND_DISPLAY);
}

/** Returns the options that show the folder and open the notebook. */
function folderOptions({ folder, notebook }: LabOptions): readonly string[] {
  const path = notebook.split('/').map(encodeURIComponent).join('/');
  const opened = existsSync(join(folder, notebook)) ? [`--LabApp.default_url=/lab/tree/${path}`] : [];
  return [`--ServerApp.root_dir=${folder}`, ...opened];
}

const HOSTS: Readonly<Record<string, string>> = { localhost: '127.0.0.1', '*': '0.0.0.0', '': '0.0.0.0' };

async function choosePort(ip: string, { port: wanted = 8888, command, say }: LabOptions): Promise<number> {
  let free: number | undefined;
  try {
    free = await freePort(wanted, HOSTS[ip] ?? ip);
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new SetUpError(`This machine cannot listen on ${ip}: ${reason}`, [
      `name one of its addresses: ${command} --ip ADDRESS`,
    ]);
  }
  if (free === undefined) {
    throw new SetUpError(`The ports ${wanted} to ${wanted + 49} are all in use.`, [
      `name another port: ${command} --port N`,
    ]);
  }
  if (free !== wanted) say(`port ${wanted} is in use; JupyterLab uses port ${free}\n`);
  return free;
}

/** Says how a browser on another machine can reach a server that listens only on this machine. */
function adviseReach(ip: string, port: number, env: NodeJS.ProcessEnv, { command, say }: LabOptions): void {
  if (ip !== 'localhost' && ip !== '127.0.0.1') return;
  if (env.SSH_CONNECTION) {
    say(
      `over SSH: on your own machine, ssh -L ${port}:localhost:${port} ${hostname()}, then open the address below\n`,
    );
  } else if (existsSync('/.dockerenv') || existsSync('/run/.containerenv')) {
    say(
      `in a container: publish the port and run \`${command} --ip 0.0.0.0\`; then JupyterLab is reachable from outside\n`,
    );
  }
}

/** Writes the server's log, says its address when it answers, and its errors, and ends the server on a signal. */
function watch(child: Server, { log, say }: LabOptions): Promise<number> {
  let isEnding = false;
  const ended = new AbortController();
  const announce = async (written: string): Promise<void> => {
    try {
      const url = await answeringAddress(written, ended.signal);
      if (!isEnding) say(`\nJupyterLab: ${url}\n(log: ${log}; Ctrl-C ends it)\n`);
    } catch {
      // JupyterLab has ended before it answered; `close` below says so.
    }
  };
  const tail = logged(child, privateLog(log, say), (url) => void announce(url));
  child.stdin.on('error', () => {});
  return new Promise((resolve, reject) => {
    let deadline: NodeJS.Timeout | undefined;
    const end = (): void => {
      if (isEnding) return;
      isEnding = true;
      say('\nending JupyterLab and its kernels … ');
      child.stdin.end();
      deadline = setTimeout(() => killGroup(child.pid), GRACE_MILLISECONDS);
    };
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, end);
    child.once('error', reject);
    child.once('close', (code) => {
      clearTimeout(deadline);
      ended.abort();
      if (isEnding) say('ended\n');
      if (isEnding || code === 0) resolve(0);
      else
        reject(
          new SetUpError(`JupyterLab ended with status ${code}:\n${tail().trim()}`, [`its log: ${log}`]),
        );
    });
  });
}

/** Copies the server's output to its log, and passes the server's address on; returns a function that returns the output's end. */
function logged(child: Server, file: WriteStream, announce: (url: string) => void): () => string {
  let tail = '';
  let isFound = false;
  const show = (text: string): void => {
    file.write(text);
    tail = (tail + text).slice(-8000);
    const url = /running at:\s*(?:\[.*?\] )?\s*(https?:\/\/\S+)/.exec(tail)?.[1];
    if (isFound || url === undefined) return;
    isFound = true;
    announce(url);
  };
  child.stdout.setEncoding('utf8').on('data', show);
  child.stderr.setEncoding('utf8').on('data', show);
  return () => tail;
}

/** Opens a new log that only this user can read, because the server writes its token into it. */
function privateLog(path: string, say: (text: string) => void): WriteStream {
  // The mode counts only for a new file, and an earlier version of this program made files that everybody could read.
  try {
    rmSync(path, { force: true });
  } catch {
    // The stream reports that the file cannot be made.
  }
  const file = createWriteStream(path, { flags: 'wx', mode: 0o600 });
  file.on('error', (error) => say(`the log cannot be written: ${error.message}\n`));
  return file;
}

function killGroup(pid: number | undefined): void {
  if (pid === undefined) return;
  try {
    process.kill(-pid, 'SIGKILL');
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'ESRCH')) throw error;
  }
}
