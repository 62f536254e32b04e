import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { SetUpError } from '../install/set-up-error';

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

/**
 * Executes notebooks with this installation's kernel and without a browser; the progress is on stdout. Returns the exit status: 1 if a cell failed. Throws:
 * ENGINE if a notebook does not exist.
 */
export function executeNotebooks(
  { python, env }: JupyterPlace,
  notebooks: readonly string[],
  target: Target,
  { progressToStderr = false } = {},
): Promise<number> {
  requireNotebooks(notebooks);
  const place = 'output' in target ? ['--output', target.output] : ['--in-place'];
  const args = [PROGRAM, '--watch-parent', '--kernel=shardlab', ...place, ...notebooks];
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
