import type { Bytes } from '../../src/core';
import { saveMemory } from '../../src/core/code-cache/save-memory';
import type { CompilerCalls, CompilerReply, CompilerRequest } from './protocol';

/** Answers the front's calls one after another, until the front is gone. */
export function serve(compiler: CompilerCalls): void {
  saveMemory();
  process.on('disconnect', () => process.exit(0));
  // If the front has ended, this process gets 'disconnect', and the answer is lost.
  const gone = (): void => {};
  const collect = collectWhenIdle();
  process.on('message', (request: CompilerRequest) => {
    process.send?.(answer(compiler, request), undefined, undefined, gone);
    collect();
  });
}

/** A compiler without a call for this long removes its garbage, if there is more than GARBAGE bytes of it. */
const QUIET_MS = 500;
const GARBAGE: Bytes = 32e6;

/**
 * Returns a function to call after each answer. A check leaves several megabytes of garbage, which V8 would collect only when the heap
 * has doubled.
 */
function collectWhenIdle(): () => void {
  const { gc } = globalThis;
  let timer: NodeJS.Timeout | undefined;
  let least: Bytes = process.memoryUsage().heapUsed;
  return () => {
    if (gc === undefined) return;
    clearTimeout(timer);
    timer = setTimeout(() => {
      if (process.memoryUsage().heapUsed < least + GARBAGE) return;
      gc();
      // V8 frees the pages of a collection only when the next one begins.
      gc();
      least = process.memoryUsage().heapUsed;
    }, QUIET_MS).unref();
  };
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
