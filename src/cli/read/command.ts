import type { Command } from 'commander';
import { ConfigError } from '../../core';
import { type Reading, readAll, readingText } from '../../programs';
import { wholeNumber } from '../arguments';
import type { Io, Perform } from '../io';

interface ReadCommandOptions {
  readonly world?: number;
}

/** `shardlab read FILE` or `-- COMMAND…`: says what each line of another program's settings means here. */
export function declareRead(command: Command, perform: Perform, io: Io): void {
  command
    .argument(
      '<file-or-command...>',
      'a file of Accelerate, DeepSpeed, LLaMA-Factory, Axolotl or TorchTitan, a Python script, a launch script (file:line for one of its launches), or, after --, a command',
    )
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

/** Returns a reading as the answer of --json. */
function readingAnswer({ world, machines, config, lines }: Reading) {
  return { world, machines, config, lines };
}
