import { NotebookCompiler } from './notebook-compiler';
import type { CompilerCalls, CompilerReply, CompilerRequest } from './protocol';
import type { CheckerOptions } from './language-service';

/** The compiler process: answers the front's calls one after another, and ends with it. */
function main(options: CheckerOptions): void {
  const compiler = new NotebookCompiler(options);
  process.on('disconnect', () => process.exit(0));
  process.on('message', (request: CompilerRequest) => process.send?.(answer(compiler, request)));
  compiler.warmUp();
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

// The front writes its options there.
main(JSON.parse(process.argv[2] ?? '{}') as CheckerOptions);
