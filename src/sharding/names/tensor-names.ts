/*
 * The names of tensor parallelism that do not depend on the rank. They need a separate module, because src/rank.ts exports the
 * same names.
 */

export {
  copyToTensorParallelRegion,
  gatherFromSequenceParallelRegion,
  gatherFromTensorParallelRegion,
  reduceFromTensorParallelRegion,
  reduceScatterToSequenceParallelRegion,
  scatterToSequenceParallelRegion,
  scatterToTensorParallelRegion,
} from '../tensor/mappings';
export {
  ColwiseParallel,
  HeadsParallel,
  Replicate,
  RowwiseParallel,
  SequenceParallel,
  Shard,
} from '../tensor/styles';
export { vocabParallelCrossEntropy } from '../tensor/vocab-parallel-cross-entropy';
