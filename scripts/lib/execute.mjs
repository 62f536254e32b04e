import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { root } from './places.mjs';
import { StepError } from './step.mjs';

/**
 * Executes notebooks with this clone's kernel and without a browser. The executed notebook and its HTML go to
 * `output`, or the notebook stays where it is when `inPlace`. Gives the exit status: 1 when a cell failed.
 */
export function executeNotebooks({ python, env }, notebooks, { output, inPlace = false }) {
  const absent = notebooks.filter((path) => !existsSync(path));
  if (absent.length > 0)
    throw new StepError(`No such notebook: ${absent.join(', ')}`, 'name one that exists');
  const args = [
    join(root, 'scripts', 'python', 'execute.py'),
    '--watch-parent',
    '--kernel=shardlab',
    ...(inPlace ? ['--in-place'] : ['--output', output]),
    ...notebooks,
  ];
  const child = spawn(python, args, { env, stdio: ['pipe', 'inherit', 'inherit'], detached: true });
  child.stdin.on('error', () => {});
  // The end of its standard input makes it end its kernel and itself; so does this process's own end.
  const end = () => child.stdin.end();
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, end);
  return new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('close', (code, signal) => resolve(signal ? 130 : code));
  });
}
