#!/usr/bin/env node
import { processIo } from './io';
import { runCommand } from './program';

void runCommand(process.argv.slice(2), processIo()).then((status) => {
  process.exitCode = status;
});
