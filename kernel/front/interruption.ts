import { AGAIN_SECONDS, describeActivity, interruptChildren, PATIENCE_MS } from '../../src/cell/native-call';
import { now, type Seconds } from '../../src/core/units';
import type { CellExecution } from './cell-execution';
import type { CompilerClient } from './compiler-client';
import type { Executions, Running } from './executions';

/** Makes the function that handles the user's interrupts; see [Note: native calls]. */
export function createInterrupt(
  cells: CellExecution,
  executions: Executions,
  compiler: CompilerClient,
): () => void {
  const { executor } = executions;
  /** The watched work: an execution, or a cell in the compiler. */
  let watched: object | undefined;
  /** The execution whose process the next interrupt kills, and until when. */
  let offer: { readonly running: Running; readonly until: Seconds } | undefined;
  const watch = (what: object, late: () => void): void => {
    if (watched === what) return;
    watched = what;
    setTimeout(() => {
      watched = undefined;
      late();
    }, PATIENCE_MS).unref();
  };
  /** An executor that has noticed the interrupt waits for ranks and reports itself. */
  const report = (running: Running): void => {
    if (executions.running !== running || running.isHeard) return;
    executions.write('stderr', notStopped(executor.pid, running.since));
    offer = { running, until: now() + AGAIN_SECONDS };
    // A starting process had not noticed the first interrupt.
    executor.interrupt(false);
  };
  return () => {
    const { running } = executions;
    if (running !== undefined && offer?.running === running && now() < offer.until) {
      executor.kill('a second interrupt ended it');
      return;
    }
    const hasChildren = running !== undefined && interruptChildren(executor.pid, running.since);
    cells.interrupt(hasChildren);
    if (running !== undefined) {
      running.isHeard = false;
      running.hasChildrenInterrupted ||= hasChildren;
      watch(running, () => report(running));
    } else if (cells.current !== undefined) {
      const cell = cells.current;
      watch(cell, () => {
        if (cells.current === cell && executions.running === undefined) compiler.replace();
      });
    }
  };
}

function notStopped(pid: number, since: Seconds): string {
  return (
    `The cell has not stopped: its process (pid ${pid}) ${describeActivity(pid, since)}. ` +
    `Interrupt again within ${AGAIN_SECONDS} s to end it: the variables of the notebook are lost then, and the ranks of its ` +
    'jobs end. Or wait: the cell stops when the process answers.\n'
  );
}
