import type { Bytes } from '../core/units';
import type { ProcessMemory } from './record';

/** What Node says about its process (the fields of process.memoryUsage() that are used). */
export interface NodeMemory {
  readonly rss: Bytes;
  readonly heapTotal: Bytes;
  readonly external: Bytes;
}

/** What the engine says: live buffers, and its heap where it has one of its own. */
export interface HeldByEngine {
  readonly bytes: Bytes;
  readonly heapBytes: Bytes;
}

/**
 * Names every resident byte of the process. Pages of the engine's heap, of V8's heap and outside it that were never
 * touched are not resident: what exceeds the process's size is taken from them, slack first. The parts add up to rss.
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
