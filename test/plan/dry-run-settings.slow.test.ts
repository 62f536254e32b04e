import { SETTINGS_CASES, SPARSE_CASES } from './dry-run-cases';
import { dryRunsEqualRealRuns } from './dry-run-suite';

dryRunsEqualRealRuns(2, SETTINGS_CASES);
dryRunsEqualRealRuns(2, SPARSE_CASES, { isTrafficAssumed: true });
// Fused attention needs a BLAS; without one on this machine the cases above run.
dryRunsEqualRealRuns(2, SETTINGS_CASES, { blas: 'auto' });
