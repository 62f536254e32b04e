import type { StateDict } from '../../nn/load-state';
import { openCatalog, type StoredArray } from './catalog';
import { type ReadTally, StretchReader } from './stretch-reader';

/** First values of a model in a file. The code that opens it closes it, once the model has the values. */
export interface FirstState {
  readonly state: StateDict;
  /** Statistics of the reads so far. */
  readonly tally: ReadTally;
  close(): void;
}

/**
 * The tensors of a safetensors file by name, without their values: a rank reads only the ranges that it stores, one
 * block at a time.
 * Throws: IO naming the file.
 */
export function openFirstState(file: string): FirstState {
  const catalog = openCatalog([file], 'model');
  const reader = new StretchReader(null);
  const entryOf = (array: StoredArray) => ({
    shape: array.shape,
    source: {
      fill(start: number, target: Float32Array): void {
        reader.read(array, { start, length: target.length }, (values, at) => target.set(values, at - start));
      },
    },
  });
  return {
    state: Object.assign(new Map([...catalog.arrays].map(([name, array]) => [name, entryOf(array)])), {
      unread: catalog.unread,
    }),
    tally: reader.tally,
    close: () => catalog.close(),
  };
}
