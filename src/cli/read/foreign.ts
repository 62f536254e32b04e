import { degreesOf, hubModelAt, requireReadable } from '../../planner';
import { foreignOf, linesText, MOST_RANKS_HERE, type Reading, readConfig } from '../../programs';
import type { Io, Output } from '../io';

/**
 * Reads the settings of another program that the words of a command name, and reports on stderr what each line does; null:
 * the words name a config of this library, or a model's config.json. Throws: CONFIG with every line that is an error; if no
 * line is a setting, with every line that was refused.
 */
export function foreignReading(
  words: readonly string[],
  { io, output, world }: { readonly io: Io; readonly output: Output; readonly world?: number | undefined },
): Reading | null {
  const [word = '', ...more] = words;
  if (more.length === 0 && hubModelAt(word, io.cwd) !== undefined) return null;
  const source = foreignOf(words, io.cwd);
  if (source === null) return null;
  const reading = readConfig(source, { cwd: io.cwd, world });
  output.note(linesText(reading.lines));
  requireReadable(reading);
  const { model: name } = reading.place;
  if (name !== undefined)
    output.note(
      `${name} can be planned, but not trained here; a run trains 'tiny' in its place, unless --set model=NAME chooses another model`,
    );
  else if (reading.config.model === undefined)
    output.note(
      "no line names a model of this library, so the model is 'tiny'; --set model=NAME chooses another",
    );
  return reading;
}

/** Returns the number of ranks to start: as many as the reading says, up to a limit for this machine. */
export function ranksHere(reading: Reading, output: Output): number {
  const degrees = degreesOf(reading);
  const numRanks = reading.world ?? Math.max(2, degrees);
  if (numRanks <= MOST_RANKS_HERE) return numRanks;
  const ranks = degrees * Math.max(1, Math.floor(MOST_RANKS_HERE / degrees));
  output.note(
    `the settings ask for ${numRanks} ranks, but ${ranks} run here; --ranks chooses another number`,
  );
  return ranks;
}
