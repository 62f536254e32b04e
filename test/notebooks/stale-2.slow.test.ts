import { executeStale } from './stale';

executeStale(2);
