import type { ClaimEntry } from './entry';
import { WAN22_FSDP } from './wan22-fsdp/document';

/** Every claim of the documents with what checks it, document by document. */
export const CLAIMS: readonly ClaimEntry[] = [...WAN22_FSDP];
