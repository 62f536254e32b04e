import type { Bytes } from '../core/units';
import type { ProcessMemory } from './record';

/** Node's numbers about its process (the used fields of process.memoryUsage()). */
export interface NodeMemory {
  readonly rss: Bytes;
  readonly heapTotal: Bytes;
  readonly external: Bytes;
}

/** The engine's numbers: live buffers, and its own heap if it has one. */
export interface HeldByEngine {
  readonly bytes: Bytes;
  readonly heapBytes: Bytes;
}

/**
 * Names every resident byte of the process. Untouched pages of the engine's heap, of V8's heap and outside of it are
 * not resident, so any excess over the process's size is subtracted from them, slack first. The parts add up to rss.
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
