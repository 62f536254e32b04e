import {
  type BufferId,
  type Bytes,
  formatBytes,
  type Observer,
  SILENT,
  type Tag,
  type Warn,
} from '../../core';

/** There is a warning if a cell leaves `MOST_TENSORS` tensors, or `MANY_TENSORS` tensors that together have `MANY_BYTES`. */
const MOST_TENSORS = 500;
const MANY_TENSORS = 20;
const MANY_BYTES: Bytes = 50e6;

/** There is a warning if `STEPS_IN_A_ROW` steps each leave the same number of tensors, with at least `LEAST_BYTES_PER_STEP`. */
const STEPS_IN_A_ROW = 3;
const LEAST_BYTES_PER_STEP: Bytes = 10e3;

/** A buffer on the device that may pile up. */
interface Piece {
  readonly cell: number;
  /** Number of the step that made the buffer, from 1; 0 outside of steps. */
  readonly step: number;
  readonly bytes: Bytes;
  isLoose: boolean;
}

interface Sum {
  readonly count: number;
  readonly bytes: Bytes;
}

/**
 * Counts tensors of cells that neither a tidy scope nor dispose has freed, and warns once when they pile up: a variable
 * that goes out of scope frees no tensor. Tensors of the library (parameters, states, activations in modules) do not count.
 * A cell's own result that a backward read, such as its logits, has the cause 'activation' and counts.
 */
export class TensorPiles {
  readonly #warn: Warn;
  readonly #pieces = new Map<BufferId, Piece>();
  #cell = 0;
  #numSteps = 0;
  #isInStep = false;
  #isTold = false;

  constructor(warn: Warn) {
    this.#warn = warn;
  }

  /** The observer to which the engine reports. */
  get observer(): Observer {
    return {
      ...SILENT,
      allocated: (id, bytes, _dtype, tag, space) => {
        if (space !== 'device' || !isPassing(tag)) return;
        const step = this.#isInStep ? this.#numSteps : 0;
        this.#pieces.set(id, { cell: this.#cell, step, bytes, isLoose: isUnclaimed(tag) });
      },
      retagged: (id, tag) => {
        const piece = this.#pieces.get(id);
        if (piece !== undefined) piece.isLoose = isUnclaimed(tag);
      },
      freed: (id) => this.#pieces.delete(id),
    };
  }

  /** Assigns later tensors to this cell. */
  enter(cell: number): void {
    this.#cell = cell;
  }

  /** Begins a step; called when a pass begins. */
  beginStep(): void {
    this.look();
    this.#numSteps++;
    this.#isInStep = true;
  }

  /** Warns if there are too many tensors, and ends the step; called after a cell, when temporary tensors are freed. */
  look(): void {
    if (!this.#isTold) this.#warnOf(this.#stepWarning() ?? this.#cellWarning());
    this.#isInStep = false;
  }

  #warnOf(warning: string | undefined): void {
    if (warning === undefined) return;
    this.#isTold = true;
    this.#warn(warning);
  }

  /** One step whose tensors still exist is no pile, because its pass may still be open. So a warning needs several such steps. */
  #stepWarning(): string | undefined {
    if (!this.#isInStep) return undefined;
    const bySteps = this.#sumsBy(({ step }) => step);
    const sums = Array.from({ length: STEPS_IN_A_ROW }, (_, i) => bySteps.get(this.#numSteps - i));
    const last = sums[0];
    const isPile = sums.every(
      (sum) => sum !== undefined && sum.count === last?.count && sum.bytes >= LEAST_BYTES_PER_STEP,
    );
    if (last === undefined || !isPile) return undefined;
    const leftTensors = last.count === 1 ? 'a tensor' : `${last.count} tensors`;
    return `cell ${this.#cell}: each step leaves ${leftTensors} (${formatBytes(last.bytes)}) ${REMEDY}`;
  }

  #cellWarning(): string | undefined {
    const sums = [...this.#sumsBy(({ cell }) => cell)].sort(([, a], [, b]) => b.count - a.count);
    const most = sums.find(
      ([, { count, bytes }]) => count >= MOST_TENSORS || (count >= MANY_TENSORS && bytes >= MANY_BYTES),
    );
    if (most === undefined) return undefined;
    const [cell, { count, bytes }] = most;
    return `cell ${cell} has made ${count} tensors (${formatBytes(bytes)}) ${REMEDY}`;
  }

  #sumsBy(keyOf: (piece: Piece) => number): Map<number, Sum> {
    const sums = new Map<number, Sum>();
    for (const piece of this.#pieces.values()) {
      if (!piece.isLoose) continue;
      const { count, bytes } = sums.get(keyOf(piece)) ?? { count: 0, bytes: 0 };
      sums.set(keyOf(piece), { count: count + 1, bytes: bytes + piece.bytes });
    }
    return sums;
  }
}

/** Whether a tensor's cause is one of the causes of tensors that a pass makes. */
function isPassing({ cause }: Tag): boolean {
  return cause === 'temp' || cause === 'batch' || cause === 'activation';
}

/** Whether a tensor was made outside of the library's own scopes ([Note: batches of cells]), or is a module's result. */
function isUnclaimed(tag: Tag): boolean {
  return isPassing(tag) && (tag.module === '' || tag.cause === 'temp');
}

const REMEDY =
  'that nothing disposed: a variable that goes out of scope frees no tensor. Write the body of the loop in a scope that frees its ' +
  'tensors:\n' +
  '  tf.tidy(() => {\n' +
  '    … the body of the loop …\n' +
  '  });\n' +
  'A scope cannot await; a body that awaits ends with tf.dispose([logits, loss]). Tensors that are stored on purpose do no harm. ' +
  'This warning appears once';
