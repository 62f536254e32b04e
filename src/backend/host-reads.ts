import * as tf from '../core/tf';
import { MetaBackend, type Values } from './meta-backend';

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
  const engine = tf.engine();
  const ends = (['readSync', 'read'] as const).map((name) => {
    const before = Object.getOwnPropertyDescriptor(engine, name);
    const read = engine[name];
    const watched = (dataId: object): unknown => {
      told(dataId);
      return Reflect.apply(read, engine, [dataId]);
    };
    Object.defineProperty(engine, name, { value: watched, configurable: true });
    return () => {
      if (Object.getOwnPropertyDescriptor(engine, name)?.value !== watched) return;
      if (before === undefined) Reflect.deleteProperty(engine, name);
      else Object.defineProperty(engine, name, before);
    };
  });
  return () => {
    for (const end of ends) end();
  };
}
