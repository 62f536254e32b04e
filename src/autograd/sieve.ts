import type * as tf from '../core/tf';
import type { KeptResults } from './kept-results';
import type { RecordedNode } from './recording';
import { Surroundings } from './surroundings';

/** Told of every operation whose backward would follow, with what it would have saved. */
export type Meter = (node: RecordedNode, saved: readonly tf.Tensor[]) => void;

/** What is noted of a forward that will run again. */
export class Sieve {
  readonly surroundings = new Surroundings();
  readonly results: KeptResults | null;
  readonly meter: Meter | null;

  constructor(results: KeptResults | null, meter: Meter | null) {
    this.results = results;
    this.meter = meter;
  }

  /** For a unit within. */
  within(): Sieve {
    return new Sieve(this.results, this.meter);
  }
}
