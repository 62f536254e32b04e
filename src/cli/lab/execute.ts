import { spawn } from 'node:child_process';
import { accessSync, constants, existsSync } from 'node:fs';
import { join } from 'node:path';
import { makeFolder } from '../../core';
import { SetUpError } from '../install/set-up-error';
import { orFail } from '../io';

/** The program that runs notebooks with a kernel; it needs nbclient and nbconvert. */
const PROGRAM = join(__dirname, 'execute.py');

/** A Python with Jupyter, and the environment in which it finds this installation's kernel. */
export interface JupyterPlace {
  readonly python: string;
  readonly env: NodeJS.ProcessEnv;
}

/** Where executed notebooks go: into a folder, with an HTML each, or in place of the notebooks. */
type Target = { readonly output: string } | { readonly inPlace: true };

/** The file descriptors of this process's output. */
const [STDOUT, STDERR] = [1, 2];

/** Throws: ENGINE (a SetUpError) if a notebook does not exist. */
export function requireNotebooks(paths: readonly string[]): void {
  const absent = paths.filter((path) => !existsSync(path));
  if (absent.length > 0)
    throw new SetUpError(`No such notebook: ${absent.join(', ')}`, ['name one that exists']);
}

/** Makes the folder for results. Throws: ENGINE (a SetUpError) if it cannot be made or written, or if it is a file. */
export function requireOutputFolder(folder: string): void {
  orFail(
    () => {
      makeFolder(folder);
      accessSync(folder, constants.W_OK);
    },
    (reason) =>
      new SetUpError(`Results cannot be written into ${folder} (${reason}).`, [
        'name a folder that can be made or written: --output FOLDER',
      ]),
  );
}

/** How notebooks are executed. */
interface ExecuteOptions {
  readonly progressToStderr?: boolean;
  /** Whether each notebook's metadata gets its time, its peak of memory, for which all its processes are sampled, and the processor. */
  readonly isMeasured?: boolean;
}

/**
 * Executes notebooks with this installation's kernel and without a browser; the progress is on stdout. Returns the exit status: 1
 * if a cell failed. Throws: ENGINE if a notebook does not exist, or if the folder for the results cannot be written.
 */
export function executeNotebooks(
  { python, env }: JupyterPlace,
  notebooks: readonly string[],
  target: Target,
  { progressToStderr = false, isMeasured = false }: ExecuteOptions = {},
): Promise<number> {
  requireNotebooks(notebooks);
  if ('output' in target) requireOutputFolder(target.output);
  const place = 'output' in target ? ['--output', target.output] : ['--in-place'];
  const flags = ['--watch-parent', ...(isMeasured ? ['--measure'] : []), '--kernel=shardlab'];
  const args = [PROGRAM, ...flags, ...place, ...notebooks];
  const progress = progressToStderr ? STDERR : STDOUT;
  const child = spawn(python, args, { env, stdio: ['pipe', progress, STDERR], detached: true });
  child.stdin?.on('error', () => {});
  // When the child's standard input ends (also because this process ends), the child ends its kernel and itself.
  const end = (): void => void child.stdin?.end();
  const signals = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;
  for (const signal of signals) process.on(signal, end);
  return new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('close', (code) => {
      for (const name of signals) process.off(name, end);
      resolve(code ?? 130); // null: a signal ended it
    });
  });
}
