import { InvalidArgumentError, Option } from 'commander';

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

/** Parses an option's value as a number above 0; 1e9 is one. */
export function positiveNumber(text: string): number {
  const value = Number(text);
  if (text.trim() !== '' && Number.isFinite(value) && value > 0) return value;
  throw new InvalidArgumentError('It must be a number above 0.');
}
