import { type ChildProcess, spawn } from 'node:child_process';
import { join } from 'node:path';
import type { Duplex } from 'node:stream';
import { type DebugNews, type DebugOrder, EVALUATOR_FLAGS, type StreamName } from '../../src/cell';
import { DEBUG_FD, openDebugLink } from '../executor/debug-link';
import {
  type ExecutorSettings,
  type FromExecutor,
  INTERRUPT_BYTE,
  LIFELINE_FD,
  PATIENT_INTERRUPT_BYTE,
  type ToExecutor,
} from '../executor/protocol';

export interface ExecutorEvents {
  message(message: FromExecutor): void;
  /** Gets what the debug agent of the notebook's cells reports. */
  debugged(news: DebugNews): void;
  /** Gets text that did not go through the console, such as text from native code or from a cell's child process. */
  stray(name: StreamName, text: string): void;
  /**
   * Is called when the process has ended and a new process was started. `how` names the signal, the exit code or the call that
   * ended the process.
   */
  died(how: string): void;
}

/** The front's handle of the executor process. */
export type ExecutorClient = ReturnType<typeof startExecutor>;

interface Running {
  readonly child: ChildProcess;
  readonly lifeline: Duplex;
  readonly debug: (order: DebugOrder) => void;
  /** Why the front killed the process; undefined if the front did not kill it. */
  why?: string;
}

/** Starts the executor process, and a new executor process whenever the old one ends. */
export function startExecutor(settings: ExecutorSettings, events: ExecutorEvents) {
  let queue: ToExecutor[] | undefined = [];
  let ended = false;
  const start = (): Running => {
    const running = spawnExecutor(settings, events.debugged);
    const { child, lifeline } = running;
    child.on('message', (message: FromExecutor) => {
      if (message.type === 'ready') {
        for (const waiting of queue ?? []) child.send(waiting);
        queue = undefined;
      }
      events.message(message);
    });
    let reason = '';
    lifeline.on('data', (bytes: Buffer) => {
      reason += bytes.toString();
    });
    child.stdout?.on('data', (bytes: Buffer) => events.stray('stdout', bytes.toString()));
    child.stderr?.on('data', (bytes: Buffer) => events.stray('stderr', bytes.toString()));
    // Child processes of cells must not outlive the executor, and 'close' comes only after these processes have closed the pipes.
    child.on('exit', () => killGroup(child));
    child.on('close', (code, signal) => {
      if (ended) return;
      queue = [];
      current = start();
      events.died(running.why ?? (reason.trim() || (signal ?? `exit code ${code}`)));
    });
    return running;
  };
  let current = start();
  return {
    send(message: ToExecutor): void {
      if (queue !== undefined) queue.push(message);
      else if (current.child.connected) current.child.send(message);
    },
    /**
     * Ends the running JavaScript. If `patiently` is true, the code first gets time to end by itself, because its child
     * processes were interrupted too.
     */
    interrupt(patiently: boolean): void {
      current.lifeline.write(Buffer.of(patiently ? PATIENT_INTERRUPT_BYTE : INTERRUPT_BYTE));
    },
    /** Gives an order to the debug agent of the notebook's cells. */
    debug(order: DebugOrder): void {
      current.debug(order);
    },
    get pid(): number {
      return current.child.pid ?? 0;
    },
    /** Kills the process and starts a new one; `why` is passed to `died`. */
    kill(why: string): void {
      current.why = why;
      killGroup(current.child);
    },
    /** Ends the process and its child processes, and starts no new process. */
    end(): void {
      ended = true;
      killGroup(current.child);
    },
  };
}

function spawnExecutor(settings: ExecutorSettings, debugged: ExecutorEvents['debugged']): Running {
  const main = join(__dirname, '..', 'executor', 'main.js');
  const child = spawn(process.execPath, [...EVALUATOR_FLAGS, main, JSON.stringify(settings)], {
    // The executor has a process group of its own: signals for the front do not reach cells, and one kill ends all child
    // processes.
    detached: true,
    cwd: settings.baseDir,
    serialization: 'advanced',
    stdio: ['ignore', 'pipe', 'pipe', 'ipc', 'pipe', 'pipe'],
  });
  // A 'pipe' beyond the first three files is a pair of sockets, which is readable and writable.
  const lifeline = child.stdio[LIFELINE_FD] as Duplex;
  // The child's 'exit' event reports the end, so errors of the lifeline are ignored.
  lifeline.on('error', () => {});
  // The typings of `stdio` have five files only.
  const files: readonly unknown[] = child.stdio;
  const debug = openDebugLink<DebugOrder, DebugNews>(files[DEBUG_FD] as Duplex, debugged);
  return { child, lifeline, debug };
}

function killGroup(child: ChildProcess): void {
  if (child.pid === undefined) return;
  try {
    process.kill(-child.pid, 'SIGKILL');
  } catch {
    // The process has already ended.
  }
}
