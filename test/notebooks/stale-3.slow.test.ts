import { executeStale } from './stale';

executeStale(3);
