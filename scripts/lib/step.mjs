import { performance } from 'node:perf_hooks';

/** A step that could not be done: what happened, and what to do about it, one advice a line. */
export class StepError extends Error {
  constructor(what, ...advice) {
    super(what);
    this.advice = advice;
  }
}

/** A command line that cannot be understood. */
export class UsageError extends StepError {}

/**
 * Does one step of a command and says in one line what it was, how it went and how long it took.
 * `work` gets `say`, with which it replaces the word "done".
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

/** Runs a command's main function; its number is the exit status, and a failure is told with what to do. */
export async function runMain(main) {
  try {
    process.exitCode = (await main()) ?? 0;
  } catch (error) {
    process.exitCode = error instanceof UsageError ? 2 : 1;
    if (error instanceof StepError) {
      process.stderr.write(`\n${error.message}\n`);
      for (const line of error.advice) process.stderr.write(`  → ${line}\n`);
    } else {
      process.stderr.write(`\n${error?.stack ?? error}\n`);
    }
  }
}
