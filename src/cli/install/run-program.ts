import { spawn } from 'node:child_process';

/** How a program ended, and what it printed. */
export interface ProgramResult {
  /** The exit status; null: the program was not started, or a signal ended it. */
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
  /** Why the program could not be started. */
  readonly missing?: Error;
  /** Whether the program was ended because its stdout did not match `expect` in time. */
  readonly isLate: boolean;
}

export interface ProgramOptions {
  readonly env: NodeJS.ProcessEnv;
  /** An abort of this signal ends the program. */
  readonly signal?: AbortSignal | undefined;
  /** A program whose stdout does not match the pattern within this time is ended. */
  readonly expect?: { readonly pattern: RegExp; readonly seconds: number };
  /** Receives each line of stdout. */
  readonly line?: ((text: string) => void) | undefined;
}

/** Runs a program to its end, without a terminal. */
export function runProgram(
  command: string,
  args: readonly string[],
  { env, signal, expect, line }: ProgramOptions,
): Promise<ProgramResult> {
  return new Promise((resolve) => {
    const child = spawn(command, args, { env, stdio: ['ignore', 'pipe', 'pipe'] });
    const end = (): void => void child.kill('SIGTERM');
    let [stdout, stderr, rest] = ['', '', ''];
    let isLate = false;
    const patience =
      expect &&
      setTimeout(() => {
        isLate = true;
        end();
      }, expect.seconds * 1e3);
    const settle = (code: number | null, missing?: Error): void => {
      process.off('exit', end);
      signal?.removeEventListener('abort', end);
      clearTimeout(patience);
      resolve({ code, stdout, stderr, isLate, ...(missing === undefined ? {} : { missing }) });
    };
    process.once('exit', end);
    signal?.addEventListener('abort', end);
    if (signal?.aborted === true) end();
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      stdout += text;
      if (expect?.pattern.test(stdout)) clearTimeout(patience);
      const lines = (rest + text).split('\n');
      rest = lines.pop() ?? '';
      for (const each of lines) line?.(each);
    });
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      stderr += text;
    });
    child.once('error', (error) => settle(null, error));
    child.once('close', (code) => settle(code));
  });
}

/** Returns the last lines of a text that are not empty. */
export function lastLines(text: string, count: number): string {
  const lines = text.split('\n').filter((each) => each.trim() !== '');
  return lines.slice(-count).join('\n');
}
