import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { ConfigError, ShardlabError } from '../../core/errors';
import type { ClaimEntry } from '../../plan/claims/entry';
import type { RecordedRuns } from '../../plan/claims/survey';
import { INSTALLATION } from '../install/kernelspec-folder';

const PLACES = [
  join('src', 'plan', 'claims', 'recorded.json'),
  join('build', 'src', 'plan', 'claims', 'recorded.json'),
];

/**
 * One processor stands for all recorded runs: on another machine all are recorded anew, not some. Throws: CONFIG where runs of
 * the recorded machine would be left among those of this one.
 */
export function requireOneMachine(
  entries: readonly ClaimEntry[],
  recorded: RecordedRuns,
  processor: string,
): void {
  const anew = new Set(entries.flatMap(({ experiment }) => experiment?.name ?? []));
  const kept = Object.keys(recorded.experiments).filter((name) => !anew.has(name));
  if (processor === recorded.processor || kept.length === 0) return;
  throw new ConfigError(
    `--record: ${kept.length} of the recorded runs would still be of ${recorded.processor}, and this is ${processor}; ` +
      'name no claims, so that all take place here',
  );
}

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
