import recorded from './recorded.json';
import type { RecordedRuns } from './survey';

/** The last results of the runs that claims use; `shardlab claims --record` writes them. */
export const recordedRuns: RecordedRuns = recorded;
