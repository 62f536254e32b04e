import { numberOf } from '../../plan/claims/finding';
import type { ClaimResult } from '../../plan/claims/survey';
import { plain } from '../grammar/ink';
import { createTable, type Table } from '../table';
import { claimRatio, documentedText, foundText } from './claim-words';

const text = (markup: string): string => plain(markup).replaceAll('&gt;', '>').replaceAll('&lt;', '<');

/** Claims as rows: what is documented, what was found, the verdict and why. */
export function claimsTable(results: readonly ClaimResult[]): Table {
  const rows = results.map((one) => {
    const { claim, finding } = one;
    return {
      id: claim.id,
      documented: text(documentedText(claim)),
      found: text(foundText(finding)),
      value: numberOf(finding),
      ratio: claimRatio(one),
      verdict: finding.verdict,
      by: finding.by,
      why: finding.why,
      statement: claim.statement,
      evidence: finding.evidence.kind,
      document: claim.document,
      needs: finding.verdict === 'not checkable here' ? finding.needs : '',
    };
  });
  return createTable(rows);
}
