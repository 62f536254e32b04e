import { probeSharedMemory } from '../../transport/native';
import { SEGMENT_BYTES } from '../../transport/segment';
import type { Check } from './check';

/** Whether ranks can exchange tensors through shared memory; otherwise the plane that they use instead. */
export function checkSharedMemory(): Check {
  const name = 'shared memory';
  const probe = probeSharedMemory(SEGMENT_BYTES);
  if (probe.ok) {
    return { name, status: 'good', found: 'koffi loads and memfd works', facts: { plane: 'shared-memory' } };
  }
  const advice = 'ranks exchange tensors over zeromq instead, which is slower; you need not do anything';
  return { name, status: 'note', found: probe.reason, advice, facts: { plane: 'zeromq' } };
}
