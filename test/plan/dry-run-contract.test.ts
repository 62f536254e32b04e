import { casesOf } from '../parallel/contract-cases';
import { dryRunsEqualRealRuns } from './dry-run-suite';

/** One of each kind; dry-run-contract.slow has all, in all worlds. */
const SAMPLE = ['NO_SHARD', 'ZERO_1', 'FULL_SHARD', 'parameters on the host'];

dryRunsEqualRealRuns(2, new Map([...casesOf(2)].filter(([name]) => SAMPLE.includes(name))));
