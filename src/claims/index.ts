export { DOCUMENTS, type DocumentName, environmentOf } from './claim';
export type { ClaimEntry } from './entry';
export { claimsTable, countVerdicts, verdictText } from './figures/claim-words';
export { claimsOfTable, documentTable } from './figures/document-table';
export { type Finding, numberOf } from './finding';
export { mutateClaims } from './mutation';
export { type Claims, claims } from './notebook/claims';
export { claimsLab } from './notebook/claims-lab';
export type { OwnClaim } from './notebook/own-claim';
export { type Reproduced, reproduce } from './notebook/reproduce';
export { PLAN_LAB } from './plan-lab';
export { recordedRuns } from './recorded-runs';
export { CLAIMS } from './registry';
export type { Probe, StatedPart } from './stated-part';
export {
  type ClaimCheck,
  checkClaims,
  type RecordedRuns,
  recordRuns,
  selectClaims,
  surveyClaims,
} from './survey';
