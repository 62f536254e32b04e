import * as tf from '../core/tf';
import type { Engine } from '../engine';
import type { ProcessGroup } from '../wire';

/** Returns the mean of all ranks' numbers, in float32. Every rank must call this function. */
export function meanOverRanks(engine: Engine, group: ProcessGroup, value: number): number {
  const tensor = engine.tagged({ cause: 'comm', module: '' }, () => tf.tensor([value], [1], 'float32'));
  try {
    group.allReduce(tensor, 'avg', { cause: 'loss' }).wait();
    return tensor.dataSync()[0] ?? Number.NaN;
  } finally {
    tensor.dispose();
  }
}
