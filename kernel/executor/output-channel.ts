import type { StreamWriter } from '../../src/cell/console-capture';
import type { DisplaySink } from '../../src/cell/display';
import { toWireBundle } from '../../src/cell/mime';
import type { CommMessage, ExecutionId, FromExecutor, Outcome, Output } from './protocol';

/** Sends the outputs of cells to the front, marked with their execution. */
export class OutputChannel {
  /** The running execution; if there is none, the last one. */
  current: ExecutionId = 0;

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
  };

  ready(): void {
    this.#send({ type: 'ready' });
  }

  interrupting(): void {
    this.#send({ type: 'interrupting', id: this.current });
  }

  done(id: ExecutionId, outcome: Outcome): void {
    this.#send({ type: 'done', id, outcome });
  }

  askInput(prompt: string, password: boolean): void {
    this.#send({ type: 'inputRequest', id: this.current, prompt, password });
  }

  comm(message: CommMessage): void {
    const { data, metadata = {} } = message;
    this.#send({ ...message, data: toWireBundle(data), metadata: toWireBundle(metadata), id: this.current });
  }

  /** Runs a later piece of an execution, as a timer's callback, so that its outputs belong to that execution. */
  within<T>(id: ExecutionId, work: () => T): T {
    const previous = this.current;
    this.current = id;
    try {
      return work();
    } finally {
      this.current = previous;
    }
  }

  #output(output: Output): void {
    this.#send({ type: 'output', id: this.current, output });
  }

  #send(message: FromExecutor): void {
    // Without a channel the front is gone, and this process is about to end.
    if (process.connected) process.send?.(message, undefined, undefined, ignoreFailure);
  }
}

function ignoreFailure(): void {
  // As above: the report has no receiver.
}
