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
 * All recorded runs come from one processor: on another machine, all of them must be recorded again. Throws: CONFIG if
 * runs of the other machine would remain.
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
      'name no claims, so that all runs are recorded here',
  );
}

/**
 * Writes runs to the files that this build and the next one read; gives the file that belongs in the repository.
 * Throws: IO.
 */
export function keepRecorded(runs: RecordedRuns): string {
  const text = `${JSON.stringify(runs, null, 2)}\n`;
  try {
    for (const place of PLACES) writeFileSync(join(INSTALLATION, place), text);
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new ShardlabError('IO', `the runs cannot be stored (${reason}); --record needs a writable clone`);
  }
  return join(INSTALLATION, PLACES[0] ?? '');
}
