import { casesOf, optimizerCasesOf } from '../parallel/contract-cases';
import { dryRunsEqualRealRuns } from './dry-run-suite';

dryRunsEqualRealRuns(2, new Map([...casesOf(2), ...optimizerCasesOf(2)]));
