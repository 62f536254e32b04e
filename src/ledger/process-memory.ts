import type { Bytes } from '../core';
import type { ProcessMemory } from './record';

/** The fields of process.memoryUsage() that are used. */
export interface NodeMemory {
  readonly rss: Bytes;
  readonly heapTotal: Bytes;
  readonly external: Bytes;
}

/** Bytes of the engine: live buffers, and its own heap if it has one. */
export interface HeldByEngine {
  readonly bytes: Bytes;
  readonly heapBytes: Bytes;
}

/**
 * Divides the resident bytes of the process (`rss`) into parts, which add up to `rss`. Untouched pages of the engine's heap
 * and of V8's memory are not resident, so the sum of the parts may be larger than `rss`. If so, the difference is subtracted
 * from the parts, first from the heap's slack.
 */
export function explainProcess(node: NodeMemory, engine: HeldByEngine): ProcessMemory {
  let left = node.rss;
  const take = (bytes: Bytes): Bytes => {
    const taken = Math.max(0, Math.min(bytes, left));
    left -= taken;
    return taken;
  };
  const deviceBytes = take(engine.bytes);
  const javascriptBytes = take(node.heapTotal);
  const externalBytes = take(node.external - Math.min(node.external, engine.heapBytes));
  const heapSlackBytes = take(Math.max(0, engine.heapBytes - engine.bytes));
  return {
    rssBytes: node.rss,
    deviceBytes,
    heapSlackBytes,
    javascriptBytes,
    externalBytes,
    nodeBytes: left,
  };
}
