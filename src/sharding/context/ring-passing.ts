import { ShardlabError } from '../../core';
import type * as tf from '../../core/tf';
import { currentEngine } from '../../engine';
import type { CollectiveOptions, ProcessGroup } from '../../wire';

/**
 * Tensors that are on their way round the ring. `arrived` waits for the previous rank's tensors and returns them; the caller
 * disposes the tensors.
 */
export interface Passing {
  arrived(): tf.Tensor[];
}

/** Starts to send tensors to the next rank of a ring, and to receive the previous rank's tensors of the same shapes. */
export function passOn(
  tensors: readonly tf.Tensor[],
  group: ProcessGroup,
  options: CollectiveOptions & { readonly module: string },
): Passing {
  const engine = currentEngine();
  if (engine === null) throw new ShardlabError('INTERNAL', 'a ring of several ranks has no engine');
  const { rank, size } = group;
  const [next, previous] = [(rank + 1) % size, (rank + size - 1) % size];
  const inBackground = { ...options, async: true };
  const received = tensors.map(({ shape }) =>
    engine.allocate(shape, 'float32', { cause: 'comm', module: options.module }),
  );
  const works = tensors.flatMap((tensor, i) => {
    const into = received[i];
    const recv = into === undefined ? [] : [group.recv(into, previous, inBackground)];
    return [group.send(tensor, next, inBackground), ...recv];
  });
  return {
    arrived() {
      for (const work of works) work.wait();
      return received;
    },
  };
}
