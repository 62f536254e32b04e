import { performance } from 'node:perf_hooks';

/** The error of a step that failed. The message says what happened; `advice` says what to do, one piece per line. */
export class StepError extends Error {
  constructor(what, ...advice) {
    super(what);
    this.advice = advice;
  }
}

/** The error of an invalid command line. */
export class UsageError extends StepError {}

/**
 * Runs one step of a command and prints one line: its title, its result and its time. `work` may call `say` with a text
 * that is printed instead of "done".
 */
export async function step(title, work) {
  const started = performance.now();
  const seconds = () => ((performance.now() - started) / 1e3).toFixed(1);
  let outcome = 'done';
  process.stdout.write(`${title} … `);
  try {
    const value = await work((text) => {
      outcome = text;
    });
    process.stdout.write(`${outcome} (${seconds()} s)\n`);
    return value;
  } catch (error) {
    process.stdout.write(`failed (${seconds()} s)\n`);
    throw error;
  }
}

/** Runs a command's main function, which returns the exit status; prints a failure with its advice. */
export async function runMain(main) {
  try {
    process.exitCode = (await main()) ?? 0;
  } catch (error) {
    process.exitCode = error instanceof UsageError ? 2 : 1;
    // Errors of the build's own set-up have advice too; their message contains it, and `failure` does not.
    if (Array.isArray(error?.advice)) {
      process.stderr.write(`\n${error.failure ?? error.message}\n`);
      for (const line of error.advice) process.stderr.write(`  → ${line}\n`);
    } else {
      process.stderr.write(`\n${error?.stack ?? error}\n`);
    }
  }
}
