import { saveMemory } from '../../src/core/code-cache/save-memory';
import type { CompilerCalls, CompilerReply, CompilerRequest } from './protocol';

/** Answers the front's calls one after another, until the front is gone. */
export function serve(compiler: CompilerCalls): void {
  saveMemory();
  process.on('disconnect', () => process.exit(0));
  // If the front has ended, this process gets 'disconnect', and the answer is lost.
  const gone = (): void => {};
  process.on('message', (request: CompilerRequest) =>
    process.send?.(answer(compiler, request), undefined, undefined, gone),
  );
}

function answer(compiler: CompilerCalls, request: CompilerRequest): CompilerReply {
  const { id } = request;
  try {
    return { id, value: perform(compiler, request) };
  } catch (error) {
    return { id, failure: error instanceof Error ? (error.stack ?? error.message) : String(error) };
  }
}

function perform(compiler: CompilerCalls, { call, argument }: CompilerRequest): unknown {
  // CompilerClient checks at compile time that the argument fits the call.
  if (call !== 'restore') return (compiler[call] as (argument: unknown) => unknown).call(compiler, argument);
  for (const earlier of argument as readonly CompilerRequest[]) perform(compiler, earlier);
  return undefined;
}
