import { AsyncLocalStorage } from 'node:async_hooks';
import { type CellOutput, type DisplaySink, type StreamWriter, toWireBundle } from '../../src/cell';
import type { CommMessage, ExecutionId, FromExecutor, RunCell, RunRanks } from './protocol';
import { RunningCells } from './running-cells';

/** The functions that are called at the end of an execution. */
type Endings = (() => void)[];

/** Where the outputs of a widget's callback go, and the functions that are called at its end. */
interface Captured {
  readonly heard: (output: CellOutput) => void;
  readonly endings: Endings;
}

/** Sends the outputs of cells to the front; each output has the number of its execution. */
export class OutputChannel {
  /** The cells whose outputs a page that is loaded again may ask for. */
  readonly cells = new RunningCells();
  /** The executions that have not ended, the oldest first. */
  readonly #running = new Map<ExecutionId, Endings>();
  /** Gets the outputs of the callback of a widget whose code now runs. */
  readonly #captured = new AsyncLocalStorage<Captured>();
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

  #sinkOf(execution: () => ExecutionId, captured?: Captured): DisplaySink {
    const output = (shown: CellOutput): void =>
      captured === undefined ? this.#output(shown, execution()) : captured.heard(shown);
    return {
      showsWidgets: captured === undefined,
      display: (bundle, { displayId, metadata = {} } = {}) => {
        const content = { bundle: toWireBundle(bundle), metadata: toWireBundle(metadata), displayId };
        output({ kind: 'display', ...content });
      },
      update: (displayId, bundle) => {
        const content = { bundle: toWireBundle(bundle), metadata: {}, displayId };
        output({ kind: 'update', ...content });
      },
      clear: (wait = false) => output({ kind: 'clear', wait }),
      atEnd: (end) => {
        const endings = captured?.endings ?? this.#running.get(execution());
        endings?.push(end);
        return endings !== undefined;
      },
      bound: () => {
        const captured = this.#captured.getStore();
        if (captured !== undefined) return this.#sinkOf(execution, captured);
        const own = this.#inSubshell.getStore();
        return own !== undefined && this.#running.has(own) ? this.sinkOf(own) : this.sink;
      },
    };
  }

  /** Begins the outputs of a cell. */
  begin(request: RunCell | RunRanks): void {
    const { id, inSubshell } = request;
    this.#running.set(id, []);
    this.cells.begin(request);
    if (!inSubshell) this.#newest = id;
  }

  /** Runs code of a cell, so that its outputs, also those after an `await`, belong to the cell. */
  runFor<T>({ id, inSubshell }: Pick<RunCell, 'id' | 'inSubshell'>, work: () => T): T {
    return inSubshell ? this.#inSubshell.run(id, work) : work();
  }

  /** Runs the callback of a widget, so that `heard` gets its outputs, also those after an `await`. */
  async capture<T>(heard: Captured['heard'], work: () => Promise<T>): Promise<T> {
    const endings: Endings = [];
    const value = await this.#captured.run({ heard, endings }, work);
    for (const end of endings) end();
    return value;
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
    const captured = this.#captured.getStore();
    if (captured !== undefined) {
      captured.heard(output);
      return;
    }
    this.cells.add(id, output);
    this.send({ type: 'output', id, output });
  }
}
