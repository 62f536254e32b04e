import type { CompilerCalls, CompilerReply, CompilerRequest } from './protocol';

/** Answers the front's calls one after another, until the front is gone. */
export function serve(compiler: CompilerCalls): void {
  process.on('disconnect', () => process.exit(0));
  // A front that has gone meanwhile is seen as a disconnect; its answer is lost.
  const gone = (): void => {};
  process.on('message', (request: CompilerRequest) =>
    process.send?.(answer(compiler, request), undefined, undefined, gone),
  );
}

function answer(compiler: CompilerCalls, { id, call, argument }: CompilerRequest): CompilerReply {
  try {
    // The front's client has typed the argument by the call's name.
    const value: unknown = (compiler[call] as (argument: unknown) => unknown).call(compiler, argument);
    return { id, value };
  } catch (error) {
    return { id, failure: error instanceof Error ? (error.stack ?? error.message) : String(error) };
  }
}
