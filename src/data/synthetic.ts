import type { BatchShape, BatchSource } from './batch';

/**
 * Tokens by a formula that any other engine can repeat: (s·7919 + r·104729 + i·31) mod vocab for element i of
 * micro-batch s on rank r. Source: the torch benchmark that produced the recorded reference losses.
 */
export function syntheticBatches(shape: BatchShape): BatchSource {
  const { batch, seq, vocab } = shape;
  return {
    name: 'synthetic',
    batch(rank, index) {
      const start = index * 7919 + rank * 104729;
      const tokens = Int32Array.from({ length: batch * (seq + 1) }, (_, i) => (start + i * 31) % vocab);
      return { batch, seq, tokens };
    },
  };
}
