import { type ChildProcess, spawn } from 'node:child_process';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { ShardlabError } from '../../src/core/errors';
import type { CompilerCall, CompilerCalls, CompilerReply, CompilerRequest } from '../compiler/protocol';
import { buildCompilerSnapshot, hasSnapshot, snapshotPlace } from '../compiler/snapshot';
import type { ExecutorSettings } from '../executor/protocol';

/** The compiler's calls as the front makes them: the work is done in a process of its own, so the front always answers. */
export interface CompilerClient {
  call<C extends CompilerCall>(
    call: C,
    ...argument: Parameters<CompilerCalls[C]>
  ): Promise<ReturnType<CompilerCalls[C]>>;
  end(): void;
}

/** How long after the compiler's first answer a missing snapshot is built: the first cells go first. */
const SNAPSHOT_DELAY_MS = 5000;

interface Waiting {
  readonly request: CompilerRequest;
  readonly resolve: (value: never) => void;
  readonly reject: (error: ShardlabError) => void;
}

/** Starts the compiler process, from its snapshot where there is one; see [Note: compiler snapshot]. */
export function startCompiler(settings: ExecutorSettings): CompilerClient {
  return new CompilerProcess(settings);
}

class CompilerProcess implements CompilerClient {
  readonly #settings: ExecutorSettings;
  readonly #waiting = new Map<number, Waiting>();
  #child: ChildProcess;
  readonly #stopBuilding = new AbortController();
  #requests = 0;
  #ended = false;

  constructor(settings: ExecutorSettings) {
    this.#settings = settings;
    const place = snapshotPlace(settings.installation);
    const fromSnapshot = hasSnapshot(place);
    this.#child = this.#spawn(fromSnapshot ? place.path : undefined);
    if (fromSnapshot) return;
    const build = (): void => void buildCompilerSnapshot(place, this.#stopBuilding.signal);
    this.#child.once('message', () => setTimeout(build, SNAPSHOT_DELAY_MS).unref());
  }

  call<C extends CompilerCall>(
    call: C,
    ...[argument]: Parameters<CompilerCalls[C]>
  ): Promise<ReturnType<CompilerCalls[C]>> {
    return new Promise((resolve, reject) => {
      const request = { id: ++this.#requests, call, argument };
      this.#waiting.set(request.id, { request, resolve, reject });
      this.#child.send(request);
    });
  }

  end(): void {
    this.#ended = true;
    this.#stopBuilding.abort();
    this.#child.kill('SIGKILL');
  }

  #spawn(snapshot: string | undefined): ChildProcess {
    const { baseDir, installation } = this.#settings;
    const program =
      snapshot === undefined
        ? [join(__dirname, '..', 'compiler', 'main.js'), installation, baseDir]
        : ['--snapshot-blob', snapshot, 'compiler', baseDir];
    const child = spawn(process.execPath, program, {
      stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
      cwd: baseDir,
    });
    let answered = false;
    child.on('message', (reply: CompilerReply) => {
      answered = true;
      this.#settle(reply);
    });
    child.on('exit', (code, signal) => {
      if (this.#ended) return;
      if (snapshot !== undefined && !answered) this.#startWithout(snapshot);
      else this.#startAnew(String(signal ?? code));
    });
    return child;
  }

  /** The snapshot cannot be used: it goes, and what was asked is asked again. */
  #startWithout(snapshot: string): void {
    rmSync(snapshot, { force: true });
    this.#child = this.#spawn(undefined);
    for (const { request } of this.#waiting.values()) this.#child.send(request);
  }

  #startAnew(how: string): void {
    const text = `the compiler's process ended (${how}) and has forgotten the types of earlier cells; run their cells again`;
    for (const { reject } of this.#waiting.values()) reject(new ShardlabError('INTERNAL', text));
    this.#waiting.clear();
    this.#child = this.#spawn(undefined);
  }

  #settle(reply: CompilerReply): void {
    const entry = this.#waiting.get(reply.id);
    this.#waiting.delete(reply.id);
    if (entry === undefined) return;
    if ('failure' in reply) {
      entry.reject(new ShardlabError('INTERNAL', `the compiler failed: ${reply.failure}`));
    } else {
      // The compiler answers a call with what that call returns.
      entry.resolve(reply.value as never);
    }
  }
}
