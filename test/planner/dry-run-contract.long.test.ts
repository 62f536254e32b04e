import { allCasesOf } from '../sharding/contract-cases';
import { dryRunsEqualRealRuns } from './dry-run-suite';

for (const world of [1, 2, 3, 4]) dryRunsEqualRealRuns(world, allCasesOf(world, 'all'));
