import { type BufferId, type Observer, SILENT, type Tag } from '../../core/events';
import { type Bytes, formatBytes } from '../../core/units';
import type { Warn } from '../../core/warn';

/** There is a warning if at least this number of tensors is not disposed. */
const MOST_TENSORS = 500;

/**
 * Counts tensors of cells that neither a tidy scope nor dispose has freed, and warns once when there are many: a
 * variable that goes out of scope frees no tensor. Tensors of the library (parameters, states, activations in modules) do
 * not count. A cell's own result that a backward read, such as its logits, has the cause 'activation' and counts.
 */
export class TensorPiles {
  readonly #warn: Warn;
  readonly #loose = new Map<BufferId, { readonly cell: number; readonly bytes: Bytes }>();
  #cell = 0;
  #isTold = false;

  constructor(warn: Warn) {
    this.#warn = warn;
  }

  /** The observer to which the engine reports. */
  get observer(): Observer {
    return {
      ...SILENT,
      allocated: (id, bytes, _dtype, tag, space) => {
        if (space === 'device' && isUnclaimed(tag)) this.#loose.set(id, { cell: this.#cell, bytes });
      },
      retagged: (id, tag) => {
        if (!isUnclaimed(tag)) this.#loose.delete(id);
      },
      freed: (id) => this.#loose.delete(id),
    };
  }

  /** Assigns later tensors to this cell. */
  enter(cell: number): void {
    this.#cell = cell;
  }

  /** Warns if there are too many tensors; called between steps and after a cell, when temporary tensors are freed. */
  look(): void {
    if (this.#isTold || this.#loose.size < MOST_TENSORS) return;
    this.#isTold = true;
    const bytesByCell = new Map<number, { count: number; bytes: Bytes }>();
    for (const { cell, bytes } of this.#loose.values()) {
      const sum = bytesByCell.get(cell) ?? { count: 0, bytes: 0 };
      bytesByCell.set(cell, { count: sum.count + 1, bytes: sum.bytes + bytes });
    }
    const [most] = [...bytesByCell].sort(([, a], [, b]) => b.count - a.count);
    if (most !== undefined) this.#warn(piledUp(most[0], most[1].count, most[1].bytes));
  }
}

/** Whether a tensor was made outside of the library's own scopes. [Note: batches of cells] */
function isUnclaimed({ cause, module }: Tag): boolean {
  return (cause === 'temp' || cause === 'batch' || cause === 'activation') && module === '';
}

function piledUp(cell: number, count: number, bytes: Bytes): string {
  return (
    `cell ${cell} has made ${count} tensors (${formatBytes(bytes)}) that nothing disposed: a variable that goes out of scope ` +
    'frees no tensor. Write the body of a loop as tf.tidy(() => { … }), which frees all tensors except its result, or end it with ' +
    'tf.dispose([x, pass.loss]). Tensors that are stored on purpose do no harm. This warning appears once'
  );
}
