import { type Command, InvalidArgumentError, Option } from 'commander';
import { CP_KINDS } from '../config/settings/model-parallel';
import { type Link, type LinkName, type LinkNumbers, linkOf } from '../transport/link';

/** Returns a parser of an option's value: an integer of at least `least`. */
export function wholeNumber(least: number): (text: string) => number {
  return (text) => {
    const value = Number(text);
    if (/^\d+$/.test(text) && value >= least) return value;
    throw new InvalidArgumentError(`It must be an integer of at least ${least}.`);
  };
}

/** Returns the option that changes settings of a config; it may be repeated. */
export function setOption(): Option {
  return new Option(
    '--set <key=value>',
    'changes a setting, such as parallel.strategy=ZERO_2; may be repeated',
  )
    .default([], 'none')
    .argParser((text, earlier: readonly string[]) => [...earlier, text]);
}

/** Returns the option that chooses the library for matmuls. */
export function blasOption(): Option {
  return new Option('--blas <choice>', 'the library for matmuls').choices(['auto', 'none']).default('auto');
}

/** Degrees of model parallelism, as the commands that train take them. */
export interface ParallelOptions {
  readonly tp?: number;
  readonly sequenceParallel?: boolean;
  readonly cp?: number;
  readonly cpKind?: (typeof CP_KINDS)[number];
}

/** Adds the options of model parallelism to a command. */
export function addParallelOptions(command: Command): Command {
  return command
    .option('--tp <n>', 'ranks that hold parts of the same matrices (tensor parallelism)', wholeNumber(1))
    .option('--sequence-parallel', 'also divides norms and residuals over the ranks of --tp')
    .option('--cp <n>', 'ranks that hold parts of the same sequences (context parallelism)', wholeNumber(1))
    .addOption(new Option('--cp-kind <kind>', 'how attention reaches all positions').choices(CP_KINDS));
}

/** Returns the settings of `parallel` that were given as options. */
export function parallelSettings({ tp, sequenceParallel, cp, cpKind }: ParallelOptions): ParallelOptions {
  const settings = Object.entries({ tp, sequenceParallel, cp, cpKind });
  return Object.fromEntries(settings.filter(([, value]) => value !== undefined));
}

/** Parses an option's value as a number above 0, such as 1e9. */
export function positiveNumber(text: string): number {
  const value = Number(text);
  if (text.trim() !== '' && Number.isFinite(value) && value > 0) return value;
  throw new InvalidArgumentError('It must be a number above 0.');
}

/** Parses '--link': a name such as 10GbE, or 'GBIT,MICROSECONDS'. Throws: an error for commander to show. */
export function parseLink(text: string): Link {
  const [, gbit, latencyUs] = /^([\d.]+),([\d.]+)$/.exec(text) ?? [];
  try {
    // linkOf checks names.
    if (gbit === undefined) return linkOf(text as LinkName);
    return linkOf({ gbit: Number(gbit), latencyUs: Number(latencyUs) });
  } catch (error) {
    throw new InvalidArgumentError(error instanceof Error ? error.message : String(error));
  }
}

/** Returns a link in the numbers that `launch` accepts. */
export function linkNumbers({ bytesPerSecond, latencySeconds }: Link): LinkNumbers {
  return { gbit: (bytesPerSecond * 8) / 1e9, latencyUs: latencySeconds * 1e6 };
}
