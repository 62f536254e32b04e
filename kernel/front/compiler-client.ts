import { type ChildProcess, spawn } from 'node:child_process';
import { join } from 'node:path';
import { ShardlabError } from '../../src/core/errors';
import type { CompilerCall, CompilerCalls, CompilerReply, CompilerRequest } from '../compiler/protocol';
import type { ExecutorSettings } from '../executor/protocol';

/** The compiler's calls as the front makes them: the work is done in a process of its own, so the front always answers. */
export interface CompilerClient {
  call<C extends CompilerCall>(
    call: C,
    ...argument: Parameters<CompilerCalls[C]>
  ): Promise<ReturnType<CompilerCalls[C]>>;
  end(): void;
}

interface Waiting {
  readonly resolve: (value: never) => void;
  readonly reject: (error: ShardlabError) => void;
}

/** Starts the compiler process. It reads TypeScript's libraries at once, so that the first cell need not wait for them. */
export function startCompiler(settings: ExecutorSettings): CompilerClient {
  const waiting = new Map<number, Waiting>();
  let requests = 0;
  let child = spawnCompiler();

  function spawnCompiler(): ChildProcess {
    const main = join(__dirname, '..', 'compiler', 'main.js');
    const process_ = spawn(process.execPath, [main, JSON.stringify(settings)], {
      stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
      cwd: settings.baseDir,
    });
    process_.on('message', (reply: CompilerReply) => settle(waiting, reply));
    return process_;
  }
  const onExit = (code: number | null, signal: string | null): void => {
    const text = `the compiler's process ended (${signal ?? code}); a new one was started, run the cell again`;
    for (const { reject } of waiting.values()) reject(new ShardlabError('INTERNAL', text));
    waiting.clear();
    child = spawnCompiler();
    child.on('exit', onExit);
  };
  child.on('exit', onExit);
  return {
    call: (call, ...argument) =>
      new Promise((resolve, reject) => {
        const id = ++requests;
        waiting.set(id, { resolve, reject });
        const request: CompilerRequest = { id, call, argument: argument[0] };
        child.send(request);
      }),
    end: () => {
      child.off('exit', onExit);
      child.kill('SIGKILL');
    },
  };
}

function settle(waiting: Map<number, Waiting>, reply: CompilerReply): void {
  const entry = waiting.get(reply.id);
  waiting.delete(reply.id);
  if (entry === undefined) return;
  if ('failure' in reply) {
    entry.reject(new ShardlabError('INTERNAL', `the compiler failed: ${reply.failure}`));
  } else {
    // The compiler answers a call with what that call returns.
    entry.resolve(reply.value as never);
  }
}
