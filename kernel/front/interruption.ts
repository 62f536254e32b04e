import { AGAIN_SECONDS, describeActivity, interruptChildren, PATIENCE_MS } from '../../src/cell/native-call';
import { now, type Seconds } from '../../src/core/units';
import type { CellExecution } from './cell-execution';
import type { CompilerClient } from './compiler-client';
import type { Executions, Running } from './executions';
import type { ExecutorClient } from './executor-client';

export interface InterruptionParts {
  readonly cells: CellExecution;
  readonly executions: Executions;
  readonly executor: ExecutorClient;
  readonly compiler: CompilerClient;
  /** Shows text in the running cell. */
  readonly say: (text: string) => void;
}

/** Handles the user's interrupts; see [Note: native calls]. */
export class Interruption {
  readonly #parts: InterruptionParts;
  /** The watched work: an execution, or a cell in the compiler. */
  #watched: object | undefined;
  /** The execution whose process the next interrupt kills, and until when. */
  #offer: { readonly running: Running; readonly until: Seconds } | undefined;

  constructor(parts: InterruptionParts) {
    this.#parts = parts;
  }

  interrupt(): void {
    const { cells, executions, executor } = this.#parts;
    const { running } = executions;
    if (running !== undefined && this.#offer?.running === running && now() < this.#offer.until) {
      executor.kill('a second interrupt ended it');
      return;
    }
    const hasChildren = running !== undefined && interruptChildren(executor.pid, running.since);
    cells.interrupt(hasChildren);
    if (running !== undefined) {
      running.isHeard = false;
      running.hasChildrenInterrupted ||= hasChildren;
      this.#watch(running, () => this.#report(running));
    } else if (cells.current !== undefined) {
      const cell = cells.current;
      this.#watch(cell, () => this.#replaceCompiler(cell));
    }
  }

  #watch(what: object, late: () => void): void {
    if (this.#watched === what) return;
    this.#watched = what;
    setTimeout(() => {
      this.#watched = undefined;
      late();
    }, PATIENCE_MS).unref();
  }

  /** An executor that has noticed the interrupt waits for ranks and reports itself. */
  #report(running: Running): void {
    const { executions, executor, say } = this.#parts;
    if (executions.running !== running || running.isHeard) return;
    const { pid } = executor;
    say(
      `The cell has not stopped: its process (pid ${pid}) ${describeActivity(pid, running.since)}. ` +
        `Interrupt again within ${AGAIN_SECONDS} s to end it: the variables of the notebook are lost then, and the ranks of its ` +
        'jobs end. Or wait: the cell stops when the process answers.\n',
    );
    this.#offer = { running, until: now() + AGAIN_SECONDS };
    // A starting process had not noticed the first interrupt.
    executor.interrupt(false);
  }

  #replaceCompiler(cell: object): void {
    const { cells, compiler, executions } = this.#parts;
    if (cells.current === cell && executions.running === undefined) compiler.replace();
  }
}
