import { writeSync } from 'node:fs';
import { readableThrown } from './cell-error';

/** An error that no code caught, with the number of its cell if the stack names one. */
export interface StrayError {
  readonly cell: number | undefined;
  readonly thrown: unknown;
}

/** The exception that `repairAfterTermination` throws. */
const REPAIR: unique symbol = Symbol('shardlab.repair');

/**
 * [Note: repair after termination] V8 skips `finally` when it ends running JavaScript, so Node's own stack of
 * asynchronous contexts keeps entries of callbacks that never returned. Node clears that stack after it has handled an
 * uncaught exception, so this function throws an exception. Node handles the exception if there is a listener.
 */
export function repairAfterTermination(): void {
  setImmediate(() => {
    process.prependOnceListener('uncaughtException', () => undefined);
    throw REPAIR;
  });
}

/** Reports unhandled rejections and exceptions, and keeps the process alive. */
export function watchStrayErrors(report: (stray: StrayError) => void): void {
  const onStray = (value: unknown): void => {
    if (value === REPAIR) return;
    const thrown = readableThrown(value);
    report({ cell: cellOf(thrown), thrown });
  };
  process.on('unhandledRejection', onStray);
  process.on('uncaughtException', onStray);
}

/** Writes a line that says that the code called process.exit. Call this function in a listener of the event 'exit'. */
export function writeExitCall(fd: number, code: number): void {
  const cell = cellOf(new Error());
  try {
    writeSync(fd, `the code called process.exit(${code})${cell === undefined ? '' : ` in In[${cell}]`}\n`);
  } catch {
    // The reader is gone; the process ends without a last message.
  }
}

/** Returns the number of the cell in an error's stack; undefined if there is none, or if the stack cannot be read. */
function cellOf(thrown: unknown): number | undefined {
  try {
    if (!(thrown instanceof Error) || typeof thrown.stack !== 'string') return undefined;
    const match = /\bIn\[(\d+)\]:\d/.exec(thrown.stack);
    return match === null ? undefined : Number(match[1]);
  } catch {
    // A getter of the error threw, and no caller would catch this second error.
    return undefined;
  }
}
