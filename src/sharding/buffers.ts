import { type Buffer, contentsOfOne, type Module } from '../nn';
import type { ProcessGroup } from '../wire';
import { halfOf, type MixedPrecision } from './precision/mixed-precision';

/** Copies rank 0's buffers to all ranks of a group, in place; masks (bool) are constants and are not sent. */
export function broadcastBuffers(buffers: readonly Buffer[], group: ProcessGroup): void {
  if (group.size === 1) return;
  buffers.forEach(({ tensor, dtype, module }, i) => {
    const contents = contentsOfOne(buffers, i);
    if (dtype !== 'bool') group.broadcast(tensor, 0, { cause: 'buffer', module, contents }).wait();
  });
}

/** Rounds the float32 buffers of a module; buffers that an inner unit has already rounded do not change again. */
export function roundBuffers(module: Module, { bufferDtype }: MixedPrecision): void {
  const half = halfOf(bufferDtype);
  if (half !== null) for (const buffer of module.buffers()) buffer.roundTo(half);
}
