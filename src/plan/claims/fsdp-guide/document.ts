import type { ClaimEntry } from '../entry';
import { GUIDE_ADVICE } from './advice';
import { GUIDE_COMMUNICATION } from './communication';
import { GUIDE_COST } from './cost';
import { GUIDE_LIMITS, GUIDE_MEMORY } from './memory';
import { GUIDE_NUMERICS } from './numerics';
import { GUIDE_SHARDING } from './sharding';
import { GUIDE_SLOW_NETWORK } from './slow-network';
import { GUIDE_THROUGHPUT } from './throughput';

/** Every claim of "PyTorch FSDP acceleration guide". */
export const FSDP_GUIDE: readonly ClaimEntry[] = [
  ...GUIDE_MEMORY,
  ...GUIDE_LIMITS,
  ...GUIDE_SHARDING,
  ...GUIDE_COMMUNICATION,
  ...GUIDE_SLOW_NETWORK,
  ...GUIDE_NUMERICS,
  ...GUIDE_THROUGHPUT,
  ...GUIDE_COST,
  ...GUIDE_ADVICE,
];
