import { spawn } from 'node:child_process';
import type { Readable } from 'node:stream';
import { ShardlabError } from '../../../src/core';

/** Runs a script. Throws: IO if its exit code is not 0. */
export async function runScript(shell: 'bash' | 'sh', script: string): Promise<void> {
  const ending = await runProgram(shell, [], process.cwd(), script);
  if (ending !== undefined) throw new ShardlabError('IO', `%%${shell}: the script ended with ${ending}`);
}

/** Runs a line in sh; reports an exit code that is not 0. */
export async function runShellLine(line: string): Promise<void> {
  const ending = await runProgram('sh', ['-c', line], process.cwd());
  if (ending !== undefined) process.stderr.write(`!${line}: the command ended with ${ending}\n`);
}

/**
 * Runs a program, whose output becomes output of the cell while the program runs. Returns how it ended, such as "exit code 1";
 * undefined: with exit code 0. Throws: IO if the program cannot be started.
 */
export function runProgram(
  program: string,
  args: readonly string[],
  folder: string,
  input = '',
): Promise<string | undefined> {
  return new Promise((resolve, reject) => {
    const child = spawn(program, args, { cwd: folder, stdio: ['pipe', 'pipe', 'pipe'] });
    passOn(child.stdout, process.stdout);
    passOn(child.stderr, process.stderr);
    // A program may end before it has read its input.
    child.stdin.on('error', () => undefined).end(input);
    child.once('error', ({ message }) =>
      reject(
        new ShardlabError(
          'IO',
          `${program} cannot be started (${message}): install it, or add its folder to PATH`,
        ),
      ),
    );
    child.once('close', (code, signal) => resolve(code === 0 ? undefined : (signal ?? `exit code ${code}`)));
  });
}

/** Time between two pieces of output, so that a program that writes without end does not fill the memory. */
const PAUSE_MS = 2;

function passOn(from: Readable, to: NodeJS.WritableStream): void {
  from.setEncoding('utf8').on('data', (text: string) => {
    to.write(text);
    from.pause();
    setTimeout(() => from.resume(), PAUSE_MS);
  });
}
