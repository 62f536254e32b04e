import { isRepair } from './repair';

/** An error that no code caught, with the number of its cell if the stack names one. */
export interface StrayError {
  readonly cell: number | undefined;
  readonly thrown: unknown;
}

/** Reports unhandled rejections and exceptions, and keeps the process alive; the returned function undoes this. */
export function watchStrayErrors(report: (stray: StrayError) => void): () => void {
  const onStray = (thrown: unknown): void => {
    if (!isRepair(thrown)) report({ cell: cellOf(thrown), thrown });
  };
  process.on('unhandledRejection', onStray);
  process.on('uncaughtException', onStray);
  return () => {
    process.off('unhandledRejection', onStray);
    process.off('uncaughtException', onStray);
  };
}

/** Number of the cell in an error's stack; undefined also for a stack that cannot be read. */
export function cellOf(thrown: unknown): number | undefined {
  try {
    if (!(thrown instanceof Error) || typeof thrown.stack !== 'string') return undefined;
    const found = /\bIn\[(\d+)\]:\d/.exec(thrown.stack);
    return found === null ? undefined : Number(found[1]);
  } catch {
    // A getter of the error threw, and no code above would catch that.
    return undefined;
  }
}
