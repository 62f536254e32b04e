import { type ChildProcess, spawn } from 'node:child_process';
import { join } from 'node:path';
import type { Duplex } from 'node:stream';
import type { StreamName } from '../../src/cell/console-capture';
import { EVALUATOR_FLAGS } from '../../src/cell/evaluator-flags';
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
  /** Text that did not go through the console: from native code or a cell's child process. */
  stray(name: StreamName, text: string): void;
  /**
   * The process ended by itself; `how` names its signal or exit code, or the code's action. A new process was started.
   */
  died(how: string): void;
}

/** The executor process, for the front. */
export type ExecutorClient = ReturnType<typeof startExecutor>;

interface Running {
  readonly child: ChildProcess;
  readonly lifeline: Duplex;
  /** Why this side ended it. */
  why?: string;
}

/** Starts the executor, and a new one whenever it dies. */
export function startExecutor(settings: ExecutorSettings, events: ExecutorEvents) {
  let queue: ToExecutor[] | undefined = [];
  let ended = false;
  const start = (): Running => {
    const running = spawnExecutor(settings);
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
    // Child processes of its cells must not survive it; 'close' waits for their ends of the pipes.
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
    /** Terminates running JavaScript; `patiently`: interrupted child processes may end it first. */
    interrupt(patiently: boolean): void {
      current.lifeline.write(Buffer.of(patiently ? PATIENT_INTERRUPT_BYTE : INTERRUPT_BYTE));
    },
    get pid(): number {
      return current.child.pid ?? 0;
    },
    /** Kills the process and starts a new one; `died` gets `why`. */
    kill(why: string): void {
      current.why = why;
      killGroup(current.child);
    },
    /** Ends the process and its child processes for good. */
    end(): void {
      ended = true;
      killGroup(current.child);
    },
  };
}

function spawnExecutor(settings: ExecutorSettings): Running {
  const main = join(__dirname, '..', 'executor', 'main.js');
  const child = spawn(process.execPath, [...EVALUATOR_FLAGS, main, JSON.stringify(settings)], {
    // A separate group: signals for the front do not reach cells, and one kill ends all child processes of a cell.
    detached: true,
    cwd: settings.baseDir,
    serialization: 'advanced',
    stdio: ['ignore', 'pipe', 'pipe', 'ipc', 'pipe'],
  });
  // A 'pipe' beyond the first three is a socket pair: readable and writable.
  const lifeline = child.stdio[LIFELINE_FD] as Duplex;
  // Its end is reported by the child's exit.
  lifeline.on('error', () => {});
  return { child, lifeline };
}

function killGroup(child: ChildProcess): void {
  if (child.pid === undefined) return;
  try {
    process.kill(-child.pid, 'SIGKILL');
  } catch {
    // It has already ended.
  }
}
