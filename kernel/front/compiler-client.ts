import { type ChildProcess, spawn } from 'node:child_process';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { isStopped } from '../../src/cell';
import { readProcessStat, ShardlabError } from '../../src/core';
import { hasCodeCache, saveCodeCache } from '../../src/core/code-cache/save';
import { savesMemory } from '../../src/core/code-cache/save-memory';
import {
  type CompilerCall,
  type CompilerCalls,
  type CompilerReply,
  type CompilerRequest,
  LASTING_CALLS,
} from '../compiler/protocol';
import { buildCompilerSnapshot, COMPILER_FLAGS, hasSnapshot, snapshotPlace } from '../compiler/snapshot';
import type { ExecutorSettings } from '../executor/protocol';

/**
 * Time between the compiler's first answer and the build of a missing snapshot or code cache, because the first cells have
 * priority.
 */
const SNAPSHOT_DELAY_MS = 5000;

/**
 * If a request has ended this number of processes, it fails, because it would end the next process too. If this number of
 * processes in a row ended before their first answer, the next process starts only with the next call.
 */
const MAX_DEATHS = 2;

/**
 * A compiler without a call for this long ends, because it needs as much memory as two ranks and more, and the next one starts in a
 * third of a second. The second time is for SHARDLAB_SAVE_MEMORY=1.
 */
const [IDLE_MS, SAVING_IDLE_MS] = [60_000, 5000];

/** Number of the request that gives a new process the state of the previous process. Other requests count from 1. */
const RESTORE = 0;

interface Waiting {
  readonly request: CompilerRequest;
  readonly resolve: (value: never) => void;
  readonly reject: (error: ShardlabError) => void;
  /** Number of processes that ended while this was the oldest request. */
  deaths: number;
}

/**
 * Sends the front's calls to the compiler. The compiler is a separate process, so that the front can always answer clients. The
 * process starts from a snapshot if there is one; see [Note: compiler snapshot].
 *
 * [Note: a compiler that dies] The front stores every answered lasting call. A new process first gets all these calls, in
 * order, and then the calls that the old process had not answered. Nothing is checked or run again, because a declaration
 * contains the text of its module.
 */
export class CompilerClient {
  readonly #settings: ExecutorSettings;
  /** Requests without an answer, in the order in which they were sent and are answered. */
  readonly #waiting = new Map<number, Waiting>();
  readonly #lasting: CompilerRequest[] = [];
  readonly #stopBuilding = new AbortController();
  /**
   * The compiler process. Undefined after MAX_DEATHS processes without an answer, and after an idle process has ended; then the next
   * call starts another process.
   */
  #child: ChildProcess | undefined;
  /** Number of consecutive processes that ended before their first answer. */
  #silentDeaths = 0;
  #requests = RESTORE;
  #ended = false;
  readonly #idleMs: number;
  #idle: NodeJS.Timeout | undefined;
  /** Whether a cell runs, during which a user may want an answer at once; then an idle compiler stays, unless memory is saved. */
  isNeeded: () => boolean = () => false;

  /** `idleMs`: the time without a call after which the process ends. */
  constructor(settings: ExecutorSettings, idleMs = savesMemory() ? SAVING_IDLE_MS : IDLE_MS) {
    this.#settings = settings;
    this.#idleMs = idleMs;
    const place = snapshotPlace(settings.installation);
    this.#child = this.#spawn();
    if (hasSnapshot(place) && hasCodeCache()) return;
    const build = async (): Promise<void> => {
      const { signal } = this.#stopBuilding;
      if (!hasSnapshot(place)) await buildCompilerSnapshot(place, signal);
      if (!hasCodeCache()) await saveCodeCache('installed', signal);
    };
    this.#child.once('message', () => setTimeout(() => void build(), SNAPSHOT_DELAY_MS).unref());
  }

  call<C extends CompilerCall>(
    call: C,
    ...[argument]: Parameters<CompilerCalls[C]>
  ): Promise<ReturnType<CompilerCalls[C]>> {
    return new Promise((resolve, reject) => {
      const request = { id: ++this.#requests, call, argument };
      this.#waiting.set(request.id, { request, resolve, reject, deaths: 0 });
      if (this.#child === undefined) this.#startAnew();
      else this.#send(request);
    });
  }

  /** Starts a compiler if the last one has ended, because a call may follow. */
  wake(): void {
    if (this.#child === undefined && !this.#ended && !savesMemory()) this.#startAnew();
    this.#endIdle();
  }

  /** Handles an interrupt: rejects all checks and kills the process. A new process gets the declarations of earlier cells. */
  replace(): void {
    const child = this.#child;
    for (const { request, reject } of this.#waiting.values()) {
      if (request.call !== 'compile') continue;
      this.#waiting.delete(request.id);
      reject(interruptedCheck(child?.pid ?? 0));
    }
    child?.kill('SIGKILL');
  }

  end(): void {
    this.#ended = true;
    this.#stopBuilding.abort();
    this.#child?.kill('SIGKILL');
  }

  #send(request: CompilerRequest): void {
    // An error is ignored, because calls that an ended process has not answered are sent to the next process.
    this.#child?.send(request, () => {});
  }

  #spawn(): ChildProcess {
    const { baseDir, installation } = this.#settings;
    const place = snapshotPlace(installation);
    const snapshot = hasSnapshot(place) ? place.path : undefined;
    const program =
      snapshot === undefined
        ? [join(__dirname, '..', 'compiler', 'main.js'), installation, baseDir]
        : ['--snapshot-blob', snapshot, 'compiler', baseDir];
    const child = spawn(process.execPath, [...COMPILER_FLAGS, ...program], {
      stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
      cwd: baseDir,
    });
    let answered = false;
    child.on('message', (reply: CompilerReply) => {
      answered = true;
      this.#silentDeaths = 0;
      this.#settle(reply, child);
      this.#endIdle();
    });
    const died = (how: string): void => {
      // A process may report both an error and its end.
      if (this.#ended || this.#child !== child) return;
      // SIGKILL comes from outside; any other end before the first answer may be caused by the snapshot.
      if (snapshot !== undefined && !answered && how !== 'SIGKILL') rmSync(snapshot, { force: true });
      if (!answered) this.#silentDeaths += 1;
      this.#died(how);
    };
    child.on('error', (error) => died(error.message));
    child.on('exit', (code, signal) => died(signal ?? `exit code ${code}`));
    return child;
  }

  /** Ends the process when it has had no call for a while. The next call starts another process, which gets the lasting calls. */
  #endIdle(): void {
    clearTimeout(this.#idle);
    const end = (): void => {
      // Without a snapshot, another start would take seconds.
      const startsFast = hasSnapshot(snapshotPlace(this.#settings.installation));
      if (this.#waiting.size > 0 || (!savesMemory() && (this.isNeeded() || !startsFast))) {
        this.#endIdle();
        return;
      }
      const child = this.#child;
      this.#child = undefined;
      child?.kill('SIGKILL');
    };
    this.#idle = setTimeout(end, this.#idleMs).unref();
  }

  #died(how: string): void {
    this.#child = undefined;
    const [oldest] = this.#waiting.values();
    if (oldest !== undefined && ++oldest.deaths === MAX_DEATHS) {
      this.#waiting.delete(oldest.request.id);
      oldest.reject(endedTwice(oldest.request, how));
    }
    if (this.#waiting.size > 0 || this.#silentDeaths < MAX_DEATHS) this.#startAnew();
  }

  #startAnew(): void {
    this.#child = this.#spawn();
    this.#send({ id: RESTORE, call: 'restore', argument: this.#lasting });
    for (const { request } of this.#waiting.values()) this.#send(request);
  }

  #settle(reply: CompilerReply, from: ChildProcess): void {
    // A process that cannot restore the previous process's state is useless.
    if (reply.id === RESTORE && 'failure' in reply) from.kill('SIGKILL');
    const entry = this.#waiting.get(reply.id);
    this.#waiting.delete(reply.id);
    if (entry === undefined) return;
    const { request } = entry;
    if ('failure' in reply) {
      entry.reject(new ShardlabError('INTERNAL', `the compiler failed: ${reply.failure}`));
      return;
    }
    if (LASTING_CALLS.some((call) => call === request.call)) this.#lasting.push(request);
    // The compiler's answer to a call has the type of the call's result.
    entry.resolve(reply.value as never);
  }
}

function endedTwice({ call }: CompilerRequest, how: string): ShardlabError {
  const activity =
    call === 'compile' ? 'checked this cell, which did not run' : `answered a request (${call})`;
  const advice = 'the types may need more memory than is available; the types of earlier cells are preserved';
  return new ShardlabError(
    'INTERNAL',
    `the compiler's process ended twice (${how}) while it ${activity}; ${advice}`,
  );
}

function interruptedCheck(pid: number): ShardlabError {
  const stat = readProcessStat(pid);
  const state =
    stat !== undefined && isStopped(stat) ? `is stopped (state ${stat.state})` : 'had not finished its check';
  return new ShardlabError(
    'INTERRUPTED',
    `the cell was interrupted before it ran; the compiler (pid ${pid}) ${state}, so a new compiler replaces it; nothing is lost`,
  );
}
