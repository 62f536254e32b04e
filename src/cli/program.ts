import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Command, CommanderError } from 'commander';
import { ShardlabError, shortened } from '../core';
import { addCollectivesBench } from './bench/collectives-command';
import { addGptBench } from './bench/gpt-command';
import { addKernelBench } from './bench/kernel-command';
import { addPlanBench } from './bench/plan-command';
import { addPredictionsBench } from './bench/predictions-command';
import { addSettingsBench } from './bench/settings-command';
import { addClaims } from './claims/command';
import { addDoctor } from './doctor/command';
import { addEngine } from './engine/command';
import { addExport } from './export/command';
import { addInstall } from './install/command';
import { INSTALLATION } from './install/kernelspec-folder';
import { createOutput, type ExitStatus, exitStatusOf, type Io, type Output, type Perform } from './io';
import { addPlan } from './plan/command';
import { addKnown } from './plan/known-command';
import { addRead } from './read/command';
import { addRecommend } from './recommend/command';
import { addRun } from './run/command';
import { addSft } from './sft/command';
import { addTrace } from './trace/command';

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
        reportError(error, output);
      }
    });
  };
  const commands = [
    addDoctor,
    addEngine,
    addInstall,
    addRun,
    addSft,
    addPlan,
    addRecommend,
    addKnown,
    addClaims,
    addRead,
    addBench,
    addTrace,
    addExport,
  ];
  for (const add of commands) add(program, perform, io);
  try {
    await program.parseAsync(argv, { from: 'user' });
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error;
    return error.exitCode === 0 ? 0 : 2;
  }
  return status;
}

/** `shardlab bench`: benchmarks, optionally against PyTorch or other kernels. */
function addBench(program: Command, perform: Perform, io: Io): void {
  const bench = program
    .command('bench')
    .description('runs benchmarks, optionally against PyTorch or other kernels');
  addGptBench(bench, perform, io);
  addCollectivesBench(bench, perform, io);
  addKernelBench(bench, perform, io);
  addSettingsBench(bench, perform, io);
  addPlanBench(bench, perform, io);
  addPredictionsBench(bench, perform, io);
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
      // An error repeats the user's argument, which may have any length.
      outputError: (text, write) => write(text.replaceAll(/\S{200,}/g, (word) => shortened(word))),
    });
}

/**
 * Reports an error of shardlab, or of the operating system about a path, by its message; any other error is a defect and is reported
 * with its stack.
 */
function reportError(error: unknown, output: Output): void {
  const code = error instanceof ShardlabError ? error.code : isAboutPath(error) ? 'IO' : 'INTERNAL';
  const message = error instanceof Error ? error.message : String(error);
  const shown = code === 'INTERNAL' && error instanceof Error ? error.stack : message;
  output.note(`shardlab: ${shown}${isAboutPath(error) ? '; name another path' : ''}`);
  if (output.json) output.answer({ error: { code, message } }, () => '');
}

function isAboutPath(error: unknown): boolean {
  return error instanceof Error && 'syscall' in error && 'path' in error;
}
