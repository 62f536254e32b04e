import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { ShardlabError } from '../../core/errors';
import type { RecordedRuns } from '../../plan/claims/survey';
import { INSTALLATION } from '../install/kernelspec-folder';

const PLACES = [
  join('src', 'plan', 'claims', 'recorded.json'),
  join('build', 'src', 'plan', 'claims', 'recorded.json'),
];

/** Writes runs where the next build and this one read them; gives the file that belongs into the repository. Throws: IO. */
export function keepRecorded(runs: RecordedRuns): string {
  const text = `${JSON.stringify(runs, null, 2)}\n`;
  try {
    for (const place of PLACES) writeFileSync(join(INSTALLATION, place), text);
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new ShardlabError(
      'IO',
      `the runs cannot be kept (${reason}); --record works in a clone that can be written`,
    );
  }
  return join(INSTALLATION, PLACES[0] ?? '');
}
