import recorded from './recorded.json';
import type { RecordedRuns } from './survey';

/** The runs that claims stand on, as they came out last; `shardlab claims --record` writes the data. */
export const recordedRuns: RecordedRuns = recorded;
