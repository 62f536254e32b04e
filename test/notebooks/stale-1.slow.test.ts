import { executeStale } from './stale';

executeStale(1);
