import type * as tf from '../../../src/core/tf';
import type { CollectiveOptions, ProcessGroup, Work } from '../../../src/wire/dist/types';

/** Returns a group whose all-reduces of one module are skipped, on all ranks. */
export function withDefect(group: ProcessGroup, module: string): ProcessGroup {
  const allReduce = (
    tensor: tf.Tensor,
    op?: Parameters<ProcessGroup['allReduce']>[1],
    options?: CollectiveOptions,
  ): Work<tf.Tensor> =>
    options?.module === module ? { done: true, wait: () => tensor } : group.allReduce(tensor, op, options);
  return new Proxy(group, {
    get(target, key) {
      if (key === 'allReduce') return allReduce;
      const value: unknown = Reflect.get(target, key, target);
      return typeof value === 'function' ? value.bind(target) : value;
    },
  });
}
