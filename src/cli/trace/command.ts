import { writeFileSync } from 'node:fs';
import { resolve } from 'node:path';
import type { Command } from 'commander';
import { ConfigError, ShardlabError } from '../../core';
import { readEventFile, toChromeTrace } from '../../ledger';
import { type Io, orFail, type Perform } from '../io';

/** `shardlab trace FILE`: converts the events of a run to a trace for Perfetto. */
export function declareTrace(command: Command, perform: Perform, io: Io): void {
  command
    .argument('<file>', 'the event file (JSON lines)')
    .option('-o, --output <file>', 'the file for the trace (default: FILE.trace.json)');
  perform<{ output?: string }>(command, async ([file = ''], options, output) => {
    const trace = toChromeTrace(readInput(() => readEventFile(resolve(io.cwd, file))).records);
    if (output.json && options.output === undefined) {
      output.answer(trace, () => '');
      return 0;
    }
    const target = resolve(io.cwd, options.output ?? `${file.replace(/\.jsonl?$/, '')}.trace.json`);
    write(target, JSON.stringify(trace));
    const document = { trace: target, numEvents: trace.traceEvents.length };
    output.answer(
      document,
      () => `${target}: ${trace.traceEvents.length} events; open it in https://ui.perfetto.dev`,
    );
    return 0;
  });
}

function write(path: string, text: string): void {
  orFail(
    () => writeFileSync(path, text),
    (reason, cause) =>
      new ShardlabError('IO', `${path} cannot be written (${reason}); name another file with --output`, {
        cause,
      }),
  );
}

/**
 * Reads a file that the user named on the command line. Throws: CONFIG instead of IO, because a wrong file is bad
 * input.
 */
function readInput<T>(read: () => T): T {
  try {
    return read();
  } catch (error) {
    if (!(error instanceof ShardlabError) || error.code !== 'IO') throw error;
    throw new ConfigError(error.message, error.details);
  }
}
