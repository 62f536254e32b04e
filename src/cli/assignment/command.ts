import { existsSync, writeFileSync } from 'node:fs';
import { basename, join, resolve } from 'node:path';
import type { Command } from 'commander';
import { ConfigError, makeFolder, parseJson, readRegularFile, ShardlabError } from '../../core';
import { assignmentOf } from '../../session';
import { positiveNumber } from '../arguments';
import { type Io, orFail, type Perform } from '../io';

interface AssignmentOptions {
  readonly out: string;
  readonly points: number;
}

/** `shardlab assignment NOTEBOOK…`: makes notebooks for nbgrader. */
export function declareAssignment(command: Command, perform: Perform, io: Io): void {
  command
    .argument('<notebook...>', 'notebooks with exercises')
    .requiredOption('--out <folder>', "the folder for the copies, such as nbgrader's source/ASSIGNMENT")
    .option('--points <n>', 'points per exercise', positiveNumber, 1)
    .addHelpText(
      'after',
      `
In the copies, each exercise has a cell for the answer and a locked cell that
checks it, and there are no outputs. nbgrader_config.py needs two lines:
  c.ClearSolutions.code_stub = {"typescript": "// your answer"}
  c.Execute.timeout = 300`,
    );
  perform<AssignmentOptions>(command, async (notebooks, { out, points }, output) => {
    const folder = resolve(io.cwd, out);
    const made = notebooks.map((notebook) => {
      const target = join(folder, basename(notebook));
      if (existsSync(target))
        throw new ConfigError(`${target} exists; name another folder with --out, or remove the file`);
      return { target, ...assignmentOf(notebook, readNotebook(resolve(io.cwd, notebook)), points) };
    });
    for (const { target, notebook } of made) write(folder, target, `${JSON.stringify(notebook, null, 1)}\n`);
    output.answer(
      made.map(({ target, exercises }) => ({ notebook: target, exercises })),
      () => made.map(({ target, exercises }) => `${target}: ${exercises.join(', ')}`).join('\n'),
    );
    return 0;
  });
}

/** Throws: CONFIG, because a wrong file is bad input. */
function readNotebook(path: string): unknown {
  try {
    return parseJson(readRegularFile(path));
  } catch (error) {
    throw new ConfigError(
      `${path} cannot be read as a notebook: ${error instanceof Error ? error.message : String(error)}`,
    );
  }
}

function write(folder: string, target: string, text: string): void {
  orFail(
    () => {
      makeFolder(folder);
      writeFileSync(target, text);
    },
    (reason, cause) =>
      new ShardlabError('IO', `${target} cannot be written (${reason}); name another folder with --out`, {
        cause,
      }),
  );
}
