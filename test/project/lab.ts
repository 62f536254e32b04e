import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { setTimeout } from 'node:timers/promises';
import { repositoryRoot } from '../support/paths';

const ROOT = repositoryRoot();

/** Why these tests are skipped; false if they run. */
export const noPython: string | false =
  process.env.SHARDLAB_PYTHON === undefined ? 'there is no Python here (npm test --no-python)' : false;

/** A JupyterLab that `npm start` has started. */
export interface Lab {
  readonly child: ChildProcess;
  readonly url: string;
  output(): string;
}

/** Starts JupyterLab by `npm start` without a browser, and waits for its address. It is killed when the test ends. */
export async function startLab(context: TestContext, args: readonly string[]): Promise<Lab> {
  const child = start(context, ['--no-browser', ...args]);
  let output = '';
  const url = await new Promise<string>((resolve, reject) => {
    const read = (text: Buffer): void => {
      output += text;
      const found = /JupyterLab: (\S+)/.exec(output)?.[1];
      if (found !== undefined) resolve(found);
    };
    child.stdout?.on('data', read);
    child.stderr?.on('data', read);
    child.once('close', (code) => reject(new Error(`ended with ${code}:\n${output}`)));
  });
  return { child, url, output: () => output };
}

/** Runs `npm start` with arguments. */
export function start(context: TestContext, args: readonly string[]): ChildProcess {
  const child = spawn(process.execPath, [join(ROOT, 'scripts', 'start.mjs'), ...args], {
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  context.after(() => child.kill('SIGKILL'));
  return child;
}

interface Process {
  readonly pid: number;
  readonly parent: number;
  readonly isDead: boolean;
}

function processes(): readonly Process[] {
  const listed = spawnSync('ps', ['-axo', 'pid=,ppid=,stat='], { encoding: 'utf8' })
    .stdout.trim()
    .split('\n');
  return listed.map((line) => {
    const [pid, parent, state = ''] = line.trim().split(/\s+/);
    return { pid: Number(pid), parent: Number(parent), isDead: state.startsWith('Z') };
  });
}

export function childrenOf(pid: number | undefined): readonly number[] {
  return processes()
    .filter(({ parent }) => parent === pid)
    .map((child) => child.pid);
}

export function isAlive(pid: number): boolean {
  return processes().some((process) => process.pid === pid && !process.isDead);
}

/** Only a parent gets the event of a process's end; others have to poll. */
export async function endOf(pid: number, seconds: number): Promise<boolean> {
  const deadline = performance.now() + seconds * 1e3;
  while (isAlive(pid) && performance.now() < deadline) await setTimeout(100);
  return !isAlive(pid);
}
