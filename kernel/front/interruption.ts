import { AGAIN_SECONDS, describeActivity, interruptChildren, SecondInterrupt } from '../../src/cell';
import type { Seconds } from '../../src/core';
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
  /**
   * Watches interrupted work. If an execution continues, the next interrupt kills the execution's process. If the compiler still
   * checks a cell, the compiler is replaced.
   */
  const second = new SecondInterrupt<'executor'>();
  /** Reports that the cell has not stopped, unless the executor has noticed the interrupt and reports this itself. */
  const report = (running: Running): 'executor' | undefined => {
    if (executions.running !== running || running.isHeard) return undefined;
    executions.write('stderr', notStopped(executor.pid, running.since));
    // If the process was still starting, it has missed the first interrupt.
    executor.interrupt(false);
    return 'executor';
  };
  return () => {
    const { running } = executions;
    if (running !== undefined && second.take(running) !== undefined) {
      executor.kill('a second interrupt ended it');
      return;
    }
    const hasChildren = running !== undefined && interruptChildren(executor.pid, running.since);
    cells.interrupt(hasChildren);
    if (running !== undefined) {
      running.isHeard = false;
      running.hasChildrenInterrupted ||= hasChildren;
      second.watch(running, () => report(running));
    } else if (cells.current !== undefined) {
      const cell = cells.current;
      second.watch(cell, () => {
        if (cells.current === cell && executions.running === undefined) compiler.replace();
        return undefined;
      });
    }
  };
}

function notStopped(pid: number, since: Seconds): string {
  return (
    `The cell has not stopped: its process (pid ${pid}) ${describeActivity(pid, since)}. ` +
    `Interrupt again within ${AGAIN_SECONDS} s to end the process: the variables of the notebook are lost then, and ` +
    'the ranks of its jobs end. Or wait: the cell stops when the process answers.\n'
  );
}
