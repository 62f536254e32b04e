import { loadNative } from '../../transport/native';
import type { Check } from './check';

const PROBE_BYTES = 65536;

/** Whether ranks can exchange tensors through shared memory, or which plane they fall back to. */
export function checkSharedMemory(): Check {
  const name = 'shared memory';
  try {
    const native = loadNative();
    native.closeFile(native.createMemoryFile('shardlab-doctor', PROBE_BYTES));
    return { name, status: 'good', found: 'koffi loads and memfd works', facts: { plane: 'shared-memory' } };
  } catch (error) {
    const found = error instanceof Error ? error.message : String(error);
    const advice = 'ranks exchange tensors over zeromq instead, which is slower; nothing has to be done';
    return { name, status: 'note', found, advice, facts: { plane: 'zeromq' } };
  }
}
