import type { TapeNode } from '../backend/tfjs-state';
import type * as tf from '../core/tf';
import type { KeptResults } from './kept-results';
import { Surroundings } from './surroundings';

/** Called for every operation whose backward would follow, with the tensors that it would have saved. */
export type Meter = (node: TapeNode, saved: readonly tf.Tensor[]) => void;

/** The notes on a forward that will run again. */
export class Sieve {
  readonly surroundings = new Surroundings();
  readonly results: KeptResults | null;
  readonly meter: Meter | null;

  constructor(results: KeptResults | null, meter: Meter | null) {
    this.results = results;
    this.meter = meter;
  }

  /** A sieve for a unit inside. */
  within(): Sieve {
    return new Sieve(this.results, this.meter);
  }
}
