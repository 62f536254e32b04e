import { SETTINGS_CASES } from './dry-run-cases';
import { dryRunsEqualRealRuns } from './dry-run-suite';

dryRunsEqualRealRuns(2, SETTINGS_CASES, { blas: 'auto' });
