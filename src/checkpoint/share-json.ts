import * as tf from '@tensorflow/tfjs';
import type { Engine } from '../backend/engine';
import type { ProcessGroup } from '../dist/types';

/** Tells every rank of the group what its first rank says; the others' value is not looked at. Plain JSON of a few kB. */
export function shareJson<T>(engine: Engine, group: ProcessGroup, value: T | undefined): T {
  const own = group.rank === 0 ? new TextEncoder().encode(JSON.stringify(value)) : new Uint8Array(0);
  const [length = 0] = share(engine, group, Int32Array.of(own.length));
  const sent = new Int32Array(length);
  sent.set(own);
  const bytes = Uint8Array.from(share(engine, group, sent));
  // What the first rank, of the same version, gave.
  return JSON.parse(new TextDecoder().decode(bytes)) as T;
}

function share(engine: Engine, group: ProcessGroup, values: Int32Array): Int32Array {
  const tensor = engine.tagged({ cause: 'comm', module: '' }, () =>
    tf.tensor(values, [values.length], 'int32'),
  );
  try {
    group.broadcast(tensor, 0, { cause: 'control' }).wait();
    return tensor.dataSync<'int32'>().slice();
  } finally {
    tensor.dispose();
  }
}
