import type { Bytes, Seconds } from '../core';

/** A unit for all numbers of a figure; numbers are divided by `divisor`. */
export interface Scaled {
  readonly divisor: number;
  readonly unit: string;
}

const BYTES = [
  [1e12, 'TB'],
  [1e9, 'GB'],
  [1e6, 'MB'],
  [1e3, 'kB'],
] as const;

/** Returns the decimal unit that suits a figure's largest value. */
export function byteScale(largest: Bytes): Scaled {
  const [divisor, unit] = BYTES.find(([size]) => Math.abs(largest) >= size) ?? [1, 'B'];
  return { divisor, unit };
}

/** Returns seconds, milliseconds or microseconds, whichever suits a figure's longest time. */
export function timeScale(longest: Seconds): Scaled {
  if (longest >= 2) return { divisor: 1, unit: 's' };
  return longest >= 2e-3 ? { divisor: 1e-3, unit: 'ms' } : { divisor: 1e-6, unit: 'µs' };
}

/** Formats a label's number: no decimals from 1000 on, one decimal from 1 to 1000, two significant digits below 1. */
export function short(value: number): string {
  const size = Math.abs(value);
  if (value === 0) return '0';
  const text =
    size >= 1000 ? value.toFixed(0) : size >= 0.995 ? value.toFixed(1) : String(Number(value.toPrecision(2)));
  return text.replace('-', '−');
}

/** Formats a share from 0 to 1 as a percentage, in figures' markup; only 0 is '0%', and only 1 is '100%': 0.996 is '99.6%'. */
export function percent(share: number): string {
  const value = share * 100;
  if (value > 0 && value < 0.5) return '&lt;1%';
  if (value > 99 && value < 100) return `${Math.min(99.9, Number(value.toFixed(1)))}%`;
  return `${Math.round(value)}%`;
}

/** Formats bytes in a figure's unit, with the unit. */
export function inUnit(value: number, scale: Scaled): string {
  const number = scale.unit === 'B' ? String(Math.round(value)) : short(value / scale.divisor);
  return `${number} ${scale.unit}`;
}

/** Puts the name of a run, a plan or a line in quotes, so that it does not read as a word of the sentence. */
export function quoted(name: string): string {
  return `"${name}"`;
}

/** Formats a count with its noun: '1 rank', '4 ranks'. */
export function counted(count: number, noun: string): string {
  return `${count.toLocaleString('en-US')} ${noun}${count === 1 ? '' : 's'}`;
}

/** Formats a factor: '3.1×', '12×'. */
export function timesText(factor: number): string {
  // Factors between 1.0005 and 1.05 have two decimals, because '1.0×' would hide the difference from 1.
  const numDigits = factor >= 10 ? 0 : factor > 1.0005 && factor < 1.05 ? 2 : 1;
  return `${factor.toFixed(numDigits)}×`;
}
