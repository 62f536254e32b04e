import type { ClaimEntry } from '../entry';
import { SWIFT_ADVICE } from './advice';
import { SWIFT_COMMANDS } from './commands';
import { SWIFT_MEMORY } from './memory';
import { SWIFT_PIPELINE } from './pipeline';
import { SWIFT_SHARDING } from './sharding';
import { SWIFT_TENSOR_PARALLEL } from './tensor-parallel';

/** Every claim of "FSDP and Megatron through ms-swift". */
export const FSDP_MEGATRON_SWIFT: readonly ClaimEntry[] = [
  ...SWIFT_MEMORY,
  ...SWIFT_SHARDING,
  ...SWIFT_TENSOR_PARALLEL,
  ...SWIFT_PIPELINE,
  ...SWIFT_COMMANDS,
  ...SWIFT_ADVICE,
];
