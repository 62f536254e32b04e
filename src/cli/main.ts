#!/usr/bin/env node
import '../core/code-cache/use';
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

void runCommand(process.argv.slice(2), processIo()).then((status) => {
  process.exitCode = status;
});
