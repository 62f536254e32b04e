import type { ClaimEntry } from './entry';
import { WAN_ARITHMETIC } from './wan22-fsdp/arithmetic';

/** Every claim of the documents with what checks it, document by document. */
export const CLAIMS: readonly ClaimEntry[] = [...WAN_ARITHMETIC];
