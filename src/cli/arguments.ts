import { InvalidArgumentError, Option } from 'commander';
import { type Link, type LinkName, type LinkNumbers, linkOf } from '../transport/link';

/** Parses an option's value as a whole number not below `least`. */
export function wholeNumber(least: number): (text: string) => number {
  return (text) => {
    const value = Number(text);
    if (/^\d+$/.test(text) && value >= least) return value;
    throw new InvalidArgumentError(`It must be a whole number from ${least}.`);
  };
}

/** The command's option that changes settings of a config; it may be repeated. */
export function setOption(): Option {
  return new Option('--set <key=value>', 'changes a setting, as parallel.strategy=ZERO_2; may be repeated')
    .default([])
    .argParser((text, others: readonly string[]) => [...others, text]);
}

/** The command's option that chooses the library for matmuls. */
export function blasOption(): Option {
  return new Option('--blas <choice>', 'the library for matmuls').choices(['auto', 'none']).default('auto');
}

/** Parses an option's value as a number above 0; 1e9 is one. */
export function positiveNumber(text: string): number {
  const value = Number(text);
  if (text.trim() !== '' && Number.isFinite(value) && value > 0) return value;
  throw new InvalidArgumentError('It must be a number above 0.');
}

/** Reads '--link': a name as 10GbE, or 'GBIT,MICROSECONDS'. Throws: what commander shows for a wrong one. */
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

/** The link as `launch` takes it; a named link also has its numbers. */
export function linkNumbers({ bytesPerSecond, latencySeconds }: Link): LinkNumbers {
  return { gbit: (bytesPerSecond * 8) / 1e9, latencyUs: latencySeconds * 1e6 };
}
