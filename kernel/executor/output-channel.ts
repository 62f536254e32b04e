import { AsyncLocalStorage } from 'node:async_hooks';
import { type DisplaySink, type StreamWriter, toWireBundle } from '../../src/cell';
import type { CellOutput, CommMessage, ExecutionId, FromExecutor, RunCell } from './protocol';

/** The functions that are called at the end of an execution. */
type Endings = (() => void)[];

/** Sends the outputs of cells to the front; each output has the number of its execution. */
export class OutputChannel {
  /** The executions that have not ended, the oldest first. */
  readonly #running = new Map<ExecutionId, Endings>();
  /** The execution of the code that now runs, if it belongs to a subshell. */
  readonly #inSubshell = new AsyncLocalStorage<ExecutionId>();
  /** The running execution of the notebook's own shell; if none runs, the last one. */
  #newest: ExecutionId = 0;
  /** The execution to which a timer's callback belongs while it runs. */
  #earlier: ExecutionId | undefined;

  readonly write: StreamWriter = (name, text) => this.#output({ kind: 'stream', name, text });

  readonly sink: DisplaySink = this.#sinkOf(() => this.current);

  /**
   * The execution to which an output of the code that now runs belongs. Events of ranks run in the context of the cell that launched
   * them; if this cell has ended, their outputs belong to the notebook's own shell.
   */
  get current(): ExecutionId {
    const own = this.#inSubshell.getStore();
    return this.#earlier ?? (own !== undefined && this.#running.has(own) ? own : this.#newest);
  }

  /** Returns a sink whose outputs belong to an execution, whatever code writes them. */
  sinkOf(id: ExecutionId): DisplaySink {
    return this.#sinkOf(() => id);
  }

  #sinkOf(execution: () => ExecutionId): DisplaySink {
    return {
      display: (bundle, { displayId, metadata = {} } = {}) => {
        const content = { bundle: toWireBundle(bundle), metadata: toWireBundle(metadata), displayId };
        this.#output({ kind: 'display', ...content }, execution());
      },
      update: (displayId, bundle) => {
        const content = { bundle: toWireBundle(bundle), metadata: {}, displayId };
        this.#output({ kind: 'update', ...content }, execution());
      },
      clear: (wait = false) => this.#output({ kind: 'clear', wait }, execution()),
      atEnd: (end) => {
        const endings = this.#running.get(execution());
        endings?.push(end);
        return endings !== undefined;
      },
      bound: () => {
        const own = this.#inSubshell.getStore();
        return own !== undefined && this.#running.has(own) ? this.sinkOf(own) : this.sink;
      },
    };
  }

  /** Begins the outputs of a cell. */
  begin({ id, inSubshell }: Pick<RunCell, 'id' | 'inSubshell'>): void {
    this.#running.set(id, []);
    if (!inSubshell) this.#newest = id;
  }

  /** Runs code of a cell, so that its outputs, also those after an `await`, belong to the cell. */
  runFor<T>({ id, inSubshell }: Pick<RunCell, 'id' | 'inSubshell'>, work: () => T): T {
    return inSubshell ? this.#inSubshell.run(id, work) : work();
  }

  /** Ends the outputs of a cell: calls the functions that write the cell's last outputs. */
  end(id: ExecutionId): void {
    const endings = this.#running.get(id) ?? [];
    this.#running.delete(id);
    for (const end of endings) this.within(id, end);
  }

  comm(message: CommMessage): void {
    const { data, metadata = {} } = message;
    this.send({ ...message, data: toWireBundle(data), metadata: toWireBundle(metadata), id: this.current });
  }

  /** Runs code that belongs to an earlier execution, such as a timer's callback. The code's outputs belong to that execution. */
  within<T>(id: ExecutionId, work: () => T): T {
    const previous = this.#earlier;
    this.#earlier = id;
    try {
      return work();
    } finally {
      this.#earlier = previous;
    }
  }

  readonly send = (message: FromExecutor): void => {
    // If the channel is closed, the front has ended, and this process is about to end too.
    if (process.connected) process.send?.(message, undefined, undefined, () => undefined);
  };

  #output(output: CellOutput, id = this.current): void {
    this.send({ type: 'output', id, output });
  }
}
