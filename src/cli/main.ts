#!/usr/bin/env node
import { useCodeCache } from '../core/code-cache/code-cache';
import { COMMANDS } from './commands';
import { processIo } from './io';
import { runCommand } from './program';

process.stdout.on('error', ({ code, message }: NodeJS.ErrnoException) => {
  // The reader has closed the pipe, as in `shardlab plan ... | head`.
  if (code === 'EPIPE') process.exit(0);
  process.stderr.write(
    `shardlab: the answer cannot be written to stdout (${message}); redirect it to another place\n`,
  );
  process.exit(1);
});

const argv = process.argv.slice(2);

// The list of commands needs few modules: without the cache, which is large, it takes less time and 16 MB less memory.
if (COMMANDS.some(({ name }) => argv.includes(name))) useCodeCache();

void runCommand(argv, processIo()).then((status) => {
  process.exitCode = status;
});
