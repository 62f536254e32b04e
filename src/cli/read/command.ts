import type { Command } from 'commander';
import { ConfigError, listed } from '../../core';
import { fileForms, type Reading, readAll, readingText } from '../../programs';
import { wholeNumber } from '../arguments';
import type { Io, Perform } from '../io';

interface ReadCommandOptions {
  readonly world?: number;
}

/** `shardlab read FILE` or `-- COMMAND…`: says what each line of another program's settings means here. */
export function declareRead(command: Command, perform: Perform, io: Io): void {
  command
    .argument('<file-or-command...>', settingsText())
    .option('--world <n>', 'number of ranks, if the settings do not say it', wholeNumber(1));
  perform<ReadCommandOptions>(command, async (words, { world }, output) => {
    const [first] = words;
    if (first === undefined) throw new ConfigError('name a file, or give a command after --');
    const readings = readAll(words.length === 1 ? first : words, { cwd: io.cwd, world });
    const answers = readings.map(readingAnswer);
    output.answer(answers.length === 1 ? answers[0] : answers, () => readings.map(readingText).join('\n\n'));
    return readings.some(({ lines }) => lines.some(({ effect }) => effect === 'error')) ? 2 : 0;
  });
}

/** Returns what the argument may be, with the names of programs that have files of settings. */
function settingsText(): string {
  const names = fileForms().flatMap(({ dialect, isUsual }) => (isUsual === true ? [dialect.name] : []));
  return `a file of ${listed(names, 'or')}, a Python script, a launch script (file:line for one of its launches), or, after --, a command`;
}

/** Returns a reading as the answer of --json. */
function readingAnswer({ world, machines, config, lines }: Reading) {
  return { world, machines, config, lines };
}
