import { isPlain } from '../../core';
import { Tensor } from '../../core/tf';
import type { MetaOwn } from './rank-run';

/** Watches the user's functions in a dry run, and stores the name of the model's class and the last batch's number of rows. */
export class CountedBatches {
  /** The user's functions; this object sees their results. */
  readonly own: MetaOwn;
  /** The number of rows of the last batch; null if the user's `data` is no function. */
  rows: number | null = null;
  model = '';

  constructor(own: MetaOwn) {
    this.own = {
      ...own,
      parts: (place, config) => {
        const parts = own.parts(place, config);
        const { data } = parts;
        this.model = parts.model?.constructor.name ?? '';
        if (data === null) return parts;
        return {
          ...parts,
          data: (index) => {
            const batch = data(index);
            this.rows = rowsOf(batch);
            return batch;
          },
        };
      },
    };
  }
}

/** Returns the number of rows of x, or of the first input if a batch has several inputs. */
function rowsOf(batch: unknown): number {
  if (!isPlain(batch)) return 1;
  const x: unknown = Array.isArray(batch.inputs) ? batch.inputs[0] : batch.x;
  if (x instanceof Tensor) return x.shape[0] ?? 1;
  return Array.isArray(x) || (ArrayBuffer.isView(x) && 'length' in x) ? Number(x.length) : 1;
}
