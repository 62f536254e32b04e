import { spawn } from 'node:child_process';
import { StepError } from './step.mjs';

/**
 * Runs a program to its end without a terminal and returns what it printed. If the program cannot be started, the result
 * has code null and `missing`. With `expect: { pattern, seconds }`, a program whose output does not match the pattern
 * within that time is ended, and the result's `late` is true.
 */
export function capture(command, args, options = {}) {
  const { expect, ...spawnOptions } = options;
  return new Promise((resolve) => {
    const child = spawn(command, args, { stdio: ['ignore', 'pipe', 'pipe'], ...spawnOptions });
    const endChild = () => child.kill('SIGTERM');
    process.once('exit', endChild);
    let stdout = '';
    let stderr = '';
    let late = false;
    const patience =
      expect &&
      setTimeout(() => {
        late = true;
        endChild();
      }, expect.seconds * 1e3);
    const settle = (code, extra) => {
      process.off('exit', endChild);
      clearTimeout(patience);
      resolve({ code, stdout, stderr, late, ...extra });
    };
    child.stdout?.setEncoding('utf8').on('data', (text) => {
      stdout += text;
      if (expect?.pattern.test(stdout)) clearTimeout(patience);
    });
    child.stderr?.setEncoding('utf8').on('data', (text) => {
      stderr += text;
    });
    child.once('error', (error) => settle(null, { missing: error }));
    child.once('close', (code, signal) => settle(code, { signal }));
  });
}

/** Runs a program as `capture` does; if the program fails, throws a StepError with the last lines of its output. */
export async function mustRun(command, args, options, what, ...advice) {
  const result = await capture(command, args, options);
  if (result.code === 0) return result;
  const reason = result.missing ? result.missing.message : lastLines(result.stderr || result.stdout, 40);
  throw new StepError(`${what}\n${reason}`, ...advice);
}

/** Returns the last `count` lines of a text, without its empty lines. */
export function lastLines(text, count) {
  const lines = text.split('\n').filter((line) => line.trim() !== '');
  return lines.slice(-count).join('\n');
}

/** Runs a program in this terminal; returns its exit status, or 128 + the signal's usual number. */
export function passThrough(command, args, options = {}) {
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, { stdio: 'inherit', ...options });
    const forward = (signal) => child.kill(signal);
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, forward);
    child.once('error', reject);
    child.once('close', (code, signal) => {
      for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.off(name, forward);
      resolve(code ?? (signal === 'SIGINT' ? 130 : 143));
    });
  });
}
