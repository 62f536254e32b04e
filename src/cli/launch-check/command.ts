import { resolve } from 'node:path';
import type { Command } from 'commander';
import { launchCheck } from '../../session';
import { positiveNumber, wholeNumber } from '../arguments';
import type { Io, Perform } from '../io';

interface LaunchCheckCommandOptions {
  readonly world?: number;
  readonly rank?: number;
  readonly hardware?: string;
  readonly timeout?: number;
}

/** `shardlab launch-check FOLDER`: tries an exported folder here, for all its ranks, before a cluster runs it. */
export function declareLaunchCheck(command: Command, perform: Perform, io: Io): void {
  command
    .argument('<folder>', 'the folder that shardlab export or run.export wrote')
    .option('--world <n>', 'number of ranks (default: as the launch files say)', wholeNumber(1))
    .option('--rank <r>', 'the rank whose start is tried (default: 0)', wholeNumber(0))
    .option('--hardware <name>', 'kind of GPU of the plan beside the dry start (default: A100-80G)')
    .option('--timeout <seconds>', 'the longest time of the dry start (default: 600)', positiveNumber);
  perform<LaunchCheckCommandOptions>(
    command,
    async ([folder = ''], { world, rank, hardware, timeout }, output) => {
      const stop = new AbortController();
      const interrupt = (): void => stop.abort();
      const signals = ['SIGINT', 'SIGTERM'] as const;
      for (const name of signals) process.on(name, interrupt);
      try {
        const check = await launchCheck(
          resolve(io.cwd, folder),
          { world, rank, hardware, timeout },
          { env: io.env, signal: stop.signal },
        );
        output.answer(check, () => check.toString());
        return check.passed ? 0 : 1;
      } finally {
        for (const name of signals) process.off(name, interrupt);
      }
    },
  );
}
