import { casesOf, optimizerCasesOf } from '../parallel/contract-cases';
import { dryRunsEqualRealRuns } from './dry-run-suite';

// Two ranks: dry-run-settings.slow runs other cases on them, dry-run-contract.long these.
for (const world of [1, 3, 4])
  dryRunsEqualRealRuns(world, new Map([...casesOf(world), ...optimizerCasesOf(world)]));
