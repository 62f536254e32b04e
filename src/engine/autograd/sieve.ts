import type * as tf from '../../core/tf';
import { type TapeNode, tfjsState } from '../backend/tfjs-state';
import type { KeptResults } from './kept-results';

/**
 * Is called in a first forward, with each operation that needs a backward and with the tensors that this operation would save
 * without checkpointing.
 */
export type Meter = (node: TapeNode, saved: readonly tf.Tensor[]) => void;

/** The notes about a forward that will run again. */
export class Sieve {
  readonly surroundings = new Surroundings();
  readonly results: KeptResults | null;
  readonly meter: Meter | null;

  constructor(results: KeptResults | null, meter: Meter | null) {
    this.results = results;
    this.meter = meter;
  }

  /** Makes a sieve for an inner unit. */
  within(): Sieve {
    return new Sieve(this.results, this.meter);
  }
}

/** The tensors that operations read but did not make. */
export class Surroundings {
  readonly #made = new Set<number>();
  readonly #read = new Map<number, tf.Tensor>();

  note(inputs: readonly tf.Tensor[], outputs: readonly tf.Tensor[]): void {
    for (const input of inputs) if (!this.#made.has(input.id)) this.#read.set(input.id, input);
    for (const output of outputs) this.#made.add(output.id);
  }

  /** Adds the tensors that a part read; `outputs` are the part's results. */
  absorb(part: Surroundings, outputs: readonly tf.Tensor[]): void {
    this.note([...part.#read.values()], outputs);
  }

  /** Returns the tensors that were read and that the tidy scopes from index `depth` on would dispose. */
  shortLived(depth: number): tf.Tensor[] {
    const scopes = new Set(
      tfjsState()
        .scopeStack.slice(depth)
        .map(({ id }) => id),
    );
    return [...this.#read.values()].filter(
      (tensor) => !tensor.kept && !tensor.isDisposed && scopes.has(tensor.scopeId),
    );
  }
}
