import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { root } from './places.mjs';
import { StepError } from './step.mjs';

/** Throws: a StepError if a notebook does not exist. */
export function requireNotebooks(paths) {
  const absent = paths.filter((path) => !existsSync(path));
  if (absent.length > 0)
    throw new StepError(`No such notebook: ${absent.join(', ')}`, 'name one that exists');
}

/**
 * Executes notebooks with this clone's kernel and without a browser. Writes the executed notebook and its HTML to
 * `output`, or overwrites the notebook if `inPlace`. Returns the exit status: 1 if a cell failed.
 */
export function executeNotebooks({ python, env }, notebooks, { output, inPlace = false }) {
  requireNotebooks(notebooks);
  const args = [
    join(root, 'scripts', 'python', 'execute.py'),
    '--watch-parent',
    '--kernel=shardlab',
    ...(inPlace ? ['--in-place'] : ['--output', output]),
    ...notebooks,
  ];
  const child = spawn(python, args, { env, stdio: ['pipe', 'inherit', 'inherit'], detached: true });
  child.stdin.on('error', () => {});
  // When the child's standard input ends (also because this process ends), the child ends its kernel and itself.
  const end = () => child.stdin.end();
  const signals = ['SIGINT', 'SIGTERM', 'SIGHUP'];
  for (const signal of signals) process.on(signal, end);
  return new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('close', (code, signal) => {
      for (const name of signals) process.off(name, end);
      resolve(signal ? 130 : code);
    });
  });
}
