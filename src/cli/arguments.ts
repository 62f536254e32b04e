import { InvalidArgumentError } from 'commander';

/** Parses an option's value as a whole number not below `least`. */
export function wholeNumber(least: number): (text: string) => number {
  return (text) => {
    const value = Number(text);
    if (/^\d+$/.test(text) && value >= least) return value;
    throw new InvalidArgumentError(`It must be a whole number from ${least}.`);
  };
}

/** Parses an option's value as a number above 0; 1e9 is one. */
export function positiveNumber(text: string): number {
  const value = Number(text);
  if (text.trim() !== '' && Number.isFinite(value) && value > 0) return value;
  throw new InvalidArgumentError('It must be a number above 0.');
}
