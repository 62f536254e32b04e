import { InvalidArgumentError } from 'commander';

/** Parses an option's value as a whole number not below `least`. */
export function wholeNumber(least: number): (text: string) => number {
  return (text) => {
    const value = Number(text);
    if (/^\d+$/.test(text) && value >= least) return value;
    throw new InvalidArgumentError(`It must be a whole number from ${least}.`);
  };
}
