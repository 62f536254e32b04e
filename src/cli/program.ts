import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Command, CommanderError } from 'commander';
import { languages, ShardlabError, shortened } from '../core';
import { COMMANDS } from './commands';
import { INSTALLATION } from './install/kernelspec-folder';
import { createOutput, type ExitStatus, exitStatusOf, type Io, type Output, type Perform } from './io';

/** Runs the `shardlab` command with these arguments; returns its exit status and never throws. */
export async function runCommand(argv: readonly string[], io: Io): Promise<ExitStatus> {
  let status: ExitStatus = 0;
  const program = createProgram(io);
  const perform: Perform = (command, action) => {
    command.option('--json', 'writes one JSON document to stdout, everything else to stderr');
    command.action(async (...args) => {
      const options = command.opts();
      const output = createOutput(io, options.json === true);
      const positionals = args
        .slice(0, -2)
        .flat()
        .filter((arg) => typeof arg === 'string');
      try {
        // Commander has checked the options against their declarations, which agree with the type of the action.
        status = await action(positionals, options as never, output);
      } catch (error) {
        status = exitStatusOf(error);
        reportError(error, output, io.env);
      }
    });
  };
  await addCommands(program, argv, perform, io);
  try {
    await program.parseAsync(argv, { from: 'user' });
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error;
    return error.exitCode === 0 ? 0 : 2;
  }
  return status;
}

/** Adds all commands as the list of commands shows them; only the one that is called has its options and its action. */
async function addCommands(
  program: Command,
  argv: readonly string[],
  perform: Perform,
  io: Io,
): Promise<void> {
  for (const { name, args, description, load } of COMMANDS) {
    const command = program.command(name).description(description);
    if (argv.includes(name)) (await load())(command, perform, io);
    else if (args === undefined) command.option('--json');
    else command.option('--json').arguments(args);
  }
}

function createProgram(io: Io): Command {
  const { version } = JSON.parse(readFileSync(join(INSTALLATION, 'package.json'), 'utf8'));
  return new Command('shardlab')
    .description('Learn, explore and check sharded training, with real rank processes.')
    .version(version)
    .showHelpAfterError('(--help lists commands and options)')
    .exitOverride()
    .configureOutput({
      writeOut: io.stdout,
      writeErr: io.stderr,
      outputError: (text, write) => {
        // An error repeats the user's argument, which may have any length.
        const short = text.replaceAll(/\S{200,}/g, (word) => shortened(word));
        const chinese = languages.showsChinese(io.env) ? languages.inChinese(short, '') : undefined;
        write(chinese === undefined ? short : `${chinese}\n${short}`);
      },
    });
}

/**
 * Reports an error of shardlab, or of the operating system about a path, by its message; any other error is a defect and is reported
 * with its stack. In front of it, the first sentence is in Chinese if the environment asks for it ([Note: Chinese messages]).
 */
function reportError(error: unknown, output: Output, env: NodeJS.ProcessEnv): void {
  const code = error instanceof ShardlabError ? error.code : isAboutPath(error) ? 'IO' : 'INTERNAL';
  const message = error instanceof Error ? error.message : String(error);
  const shown = code === 'INTERNAL' && error instanceof Error ? error.stack : message;
  const chinese = languages.showsChinese(env) ? languages.inChinese(message, code) : undefined;
  if (chinese !== undefined) output.note(`shardlab: ${chinese}`);
  output.note(`shardlab: ${shown}${isAboutPath(error) ? '; name another path' : ''}`);
  if (output.json) output.answer({ error: { code, message } }, () => '');
}

function isAboutPath(error: unknown): boolean {
  return error instanceof Error && 'syscall' in error && 'path' in error;
}
