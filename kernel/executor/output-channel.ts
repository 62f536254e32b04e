import { type DisplaySink, type StreamWriter, toWireBundle } from '../../src/cell';
import type { CellOutput, CommMessage, ExecutionId, FromExecutor } from './protocol';

/** Sends the outputs of cells to the front; each output has the number of its execution. */
export class OutputChannel {
  /** The running execution; if no execution runs, the last one. */
  current: ExecutionId = 0;

  /** The functions that are called at the end of the running cell; null if no cell runs. */
  #endings: (() => void)[] | null = null;

  readonly write: StreamWriter = (name, text) => this.#output({ kind: 'stream', name, text });

  readonly sink: DisplaySink = {
    display: (bundle, { displayId, metadata = {} } = {}) =>
      this.#output({
        kind: 'display',
        bundle: toWireBundle(bundle),
        metadata: toWireBundle(metadata),
        displayId,
      }),
    update: (displayId, bundle) =>
      this.#output({ kind: 'update', bundle: toWireBundle(bundle), metadata: {}, displayId }),
    clear: (wait = false) => this.#output({ kind: 'clear', wait }),
    atEnd: (end) => {
      this.#endings?.push(end);
      return this.#endings !== null;
    },
  };

  /** Begins the outputs of a cell. */
  begin(id: ExecutionId): void {
    this.current = id;
    this.#endings = [];
  }

  /** Ends the outputs of a cell: calls the functions that write the cell's last outputs. */
  end(): void {
    const endings = this.#endings ?? [];
    this.#endings = null;
    for (const end of endings) end();
  }

  comm(message: CommMessage): void {
    const { data, metadata = {} } = message;
    this.send({ ...message, data: toWireBundle(data), metadata: toWireBundle(metadata), id: this.current });
  }

  /** Runs code that belongs to an earlier execution, such as a timer's callback. The code's outputs belong to that execution. */
  within<T>(id: ExecutionId, work: () => T): T {
    const previous = this.current;
    this.current = id;
    try {
      return work();
    } finally {
      this.current = previous;
    }
  }

  send(message: FromExecutor): void {
    // If the channel is closed, the front has ended, and this process is about to end too.
    if (process.connected) process.send?.(message, undefined, undefined, () => undefined);
  }

  #output(output: CellOutput): void {
    this.send({ type: 'output', id: this.current, output });
  }
}
