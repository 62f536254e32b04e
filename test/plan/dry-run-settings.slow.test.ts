import { SETTINGS_CASES, SPARSE_CASES } from './dry-run-cases';
import { dryRunsEqualRealRuns } from './dry-run-suite';

/** Cases whose attention a BLAS fuses, one of each kind; dry-run-settings.long has all. */
const FUSED = [
  'everything recomputed',
  'selective recomputation',
  'llama in blocks of attention',
  'a video transformer in blocks of attention, recomputed',
  'tensor and sequence parallel, recomputed',
  'sequences divided over ranks',
  'experts',
];

dryRunsEqualRealRuns(2, SETTINGS_CASES);
dryRunsEqualRealRuns(2, SPARSE_CASES, { isTrafficAssumed: true });
// Without a BLAS on this machine the cases above run.
const fused = [...SETTINGS_CASES].filter(([name]) => FUSED.includes(name));
dryRunsEqualRealRuns(2, new Map(fused), { blas: 'auto' });
