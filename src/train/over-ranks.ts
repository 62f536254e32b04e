import type { Engine } from '../backend/engine';
import * as tf from '../core/tf';
import type { ProcessGroup } from '../dist/types';

/** Returns the sum or mean of all ranks' numbers, in float32. Every rank calls it. */
export function overRanks(engine: Engine, group: ProcessGroup, value: number, op: 'sum' | 'avg'): number {
  const tensor = engine.tagged({ cause: 'comm', module: '' }, () => tf.tensor([value], [1], 'float32'));
  try {
    group.allReduce(tensor, op, { cause: 'loss' }).wait();
    return tensor.dataSync()[0] ?? Number.NaN;
  } finally {
    tensor.dispose();
  }
}
