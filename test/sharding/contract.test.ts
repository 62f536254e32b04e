import { casesOf } from './contract-cases';
import { contractOf } from './contract-suite';

/** One of each kind; contract.slow has all, and contract.long all in all worlds. */
const SAMPLE = [
  'NO_SHARD',
  'ZERO_1',
  'ZERO_2',
  'SHARD_GRAD_OP',
  'FULL_SHARD',
  'HYBRID_SHARD, 2 copies',
  'FULL_SHARD, 3 microbatches reduced once',
  'parameters on the host',
];

contractOf(2, new Map([...casesOf(2)].filter(([name]) => SAMPLE.includes(name))));
