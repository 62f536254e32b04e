#!/usr/bin/env node
import { processIo } from './io';
import { runCommand } from './program';

// Who reads no further (`shardlab plan ... | head`) wants no more.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code === 'EPIPE') process.exit(0);
  throw error;
});

void runCommand(process.argv.slice(2), processIo()).then((status) => {
  process.exitCode = status;
});
