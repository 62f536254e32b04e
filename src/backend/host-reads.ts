import * as tf from '../core/tf';
import { MetaBackend, type Values } from './meta-backend';
import { replaceEngineFunction } from './tfjs-state';

/** A tensor's values; in a dry run, the assumed values. [Note: values in a dry run] */
export function readValues(tensor: tf.Tensor, assumed: () => Values): Values {
  const backend = tf.backend();
  const read = (): Values => tensor.dataSync();
  return backend instanceof MetaBackend ? backend.assuming(assumed, read) : read();
}

/**
 * From now on reports every buffer whose values are read by dataSync(), data() and similar functions. The returned
 * function ends the reports.
 */
export function watchHostReads(told: (dataId: object) => void): () => void {
  const ends = (['readSync', 'read'] as const).map((name) =>
    replaceEngineFunction(name, (read) => (dataId: object) => {
      told(dataId);
      return read(dataId);
    }),
  );
  return () => {
    for (const end of ends) end();
  };
}
