import { spawn } from 'node:child_process';
import { ShardlabError } from '../../core';
import type { Io } from '../io';

/**
 * Runs a Python program and returns its stdout. A program that fails after it has printed an output that `isWhole` accepts
 * counts as successful, because torch's gloo sometimes aborts when a program ends. Messages name `option` as the option that
 * chooses the Python. Throws: ENGINE with the program's last lines if the program fails.
 */
export function runPython(
  python: string,
  args: readonly string[],
  io: Io,
  isWhole: (stdout: string) => boolean = () => false,
  option = '--peer',
): Promise<string> {
  return new Promise((resolve, reject) => {
    const child = spawn(python, args, { cwd: io.cwd, env: io.env, stdio: ['ignore', 'pipe', 'pipe'] });
    let stdout = '';
    let stderr = '';
    child.stdout.setEncoding('utf8').on('data', (text) => {
      stdout += text;
    });
    child.stderr.setEncoding('utf8').on('data', (text) => {
      stderr += text;
    });
    child.once('error', (cause) => {
      reject(
        new ShardlabError(
          'ENGINE',
          `${python} does not start (${cause.message}); name another Python with ${option}`,
          {
            cause,
          },
        ),
      );
    });
    child.once('close', (code) => {
      if (code === 0 || isWhole(stdout)) return resolve(stdout);
      const last = stderr.trim().split('\n').slice(-8).join('\n');
      reject(new ShardlabError('ENGINE', `${python} ${args[0]} ended with status ${code}:\n${last}`));
    });
  });
}
