import { ACCELERATE_MULTINODE } from './accelerate-multinode/document';
import type { ClaimEntry } from './entry';
import { FSDP_GUIDE } from './fsdp-guide/document';
import { FSDP_MEGATRON_SWIFT } from './fsdp-megatron-swift/document';
import { WAN_DEEPSPEED_ZERO3 } from './wan-deepspeed-zero3/document';
import { WAN22_FSDP } from './wan22-fsdp/document';

/** Every claim of the documents with its check, document by document. */
export const CLAIMS: readonly ClaimEntry[] = [
  ...WAN22_FSDP,
  ...FSDP_GUIDE,
  ...WAN_DEEPSPEED_ZERO3,
  ...ACCELERATE_MULTINODE,
  ...FSDP_MEGATRON_SWIFT,
];
