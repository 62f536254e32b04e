import { CLAIM_ROWS, requestsOf } from './claim';
import type { ClaimEntry } from './entry';
import { EXPERIMENTS } from './experiments';
import { entryOfRow } from './row-entry';

/** Every claim of the documents with its check, document by document. */
export const CLAIMS: readonly ClaimEntry[] = CLAIM_ROWS.map(({ document, claim, row }) =>
  entryOfRow(claim, row.check, requestsOf(document), EXPERIMENTS),
);
