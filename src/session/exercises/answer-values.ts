import { ownValue } from '../../core';

/*
 * [Note: answers] People write one answer in many ways: 16e6, '16 MB', '16,000,000', '25%', '1/2', 'rank 1', 'Activations', 'num_machines and
 * num_processes'. The functions of this file read them; `judge.ts` compares what they return.
 */

/** Bytes per unit. A 'k' of bytes is 1,000 and a 'Ki' is 1,024, as in the rest of this library. */
const BYTES: Readonly<Record<string, number>> = {
  b: 1,
  byte: 1,
  字节: 1,
  kb: 1e3,
  mb: 1e6,
  gb: 1e9,
  tb: 1e12,
  kib: 2 ** 10,
  mib: 2 ** 20,
  gib: 2 ** 30,
  tib: 2 ** 40,
};

const SECONDS: Readonly<Record<string, number>> = {
  s: 1,
  sec: 1,
  second: 1,
  秒: 1,
  ms: 1e-3,
  millisecond: 1e-3,
  毫秒: 1e-3,
  µs: 1e-6,
  μs: 1e-6,
  us: 1e-6,
  microsecond: 1e-6,
  微秒: 1e-6,
  min: 60,
  minute: 60,
  分钟: 60,
};

const PERCENT: readonly string[] = ['%', 'percent', 'per cent', '百分之', '％'];
const TIMES: readonly string[] = ['×', 'x', 'time', 'times', 'fold', '倍'];

/** A number and what follows it; the number may have thousands separators. */
const NUMBER = /^([-+]?(?:\d{1,3}(?:[, _]\d{3})+(?:\.\d+)?|\d*\.?\d+|\d+\.)(?:e[-+]?\d+)?)\s*(.*)$/iu;
const FRACTION = /^([-+]?\d+(?:\.\d+)?)\s*\/\s*(\d+(?:\.\d+)?)$/;
/** A decimal comma: fewer than three digits follow it. */
const DECIMAL_COMMA = /^([-+]?\d+),(\d{1,2})(?!\d)/;

/**
 * Returns the number of an answer in the exercise's unit; undefined if it is not a finite number, or has the unit of another quantity:
 * bytes or seconds where neither is asked for.
 */
export function answerNumber(value: unknown, unit: string): number | undefined {
  if (typeof value === 'number') return Number.isFinite(value) ? value : undefined;
  if (typeof value === 'bigint') return Number(value);
  if (typeof value !== 'string') return undefined;
  const text = withoutUnit(value.normalize('NFKC').trim(), unit).replace(DECIMAL_COMMA, '$1.$2');
  const [, over, under] = FRACTION.exec(text) ?? [];
  if (over !== undefined) return finite(Number(over) / Number(under));
  const [, digits, rest] = NUMBER.exec(text) ?? [];
  if (digits === undefined || rest === undefined) return undefined;
  return finite(Number(digits.replaceAll(/[, _]/g, '')) * scaleOf(rest, unit));
}

/** Returns an answer without the unit before its number: 'rank 1' is 1. */
function withoutUnit(text: string, unit: string): string {
  const [, word, rest] = /^(\p{L}+)[\s:=#]*(.*)$/su.exec(text) ?? [];
  return rest !== undefined && answerWord(word) === answerWord(unit) ? rest : text;
}

function finite(number: number): number | undefined {
  return Number.isFinite(number) ? number : undefined;
}

/** Returns by what a number with this unit is multiplied; NaN if the unit is that of another quantity. */
function scaleOf(written: string, unit: string): number {
  const word = written.trim().toLowerCase().replace(/\.$/, '').replace(/^of /, '');
  if (word === '') return 1;
  if (TIMES.includes(word) && unit === '×') return 1;
  if (unit === '%' && PERCENT.includes(word)) return 1;
  const singular = word.length > 3 ? word.replace(/s$/, '') : word;
  const ownUnit = unit === 'bytes' ? 'b' : unit.toLowerCase();
  for (const sizes of [BYTES, SECONDS]) {
    const own = ownValue(sizes, ownUnit);
    const size = ownValue(sizes, singular);
    if (own !== undefined) return (size ?? Number.NaN) / own;
    // A number of GPUs is no number of megabytes.
    if (size !== undefined) return Number.NaN;
  }
  if (PERCENT.includes(word)) return 1 / 100;
  return 1; // any other word only repeats what is counted
}

/** Returns a word without what does not matter: case, quotes, hyphens, articles, and the s of a plural. */
export function answerWord(value: unknown): string | undefined {
  if (typeof value !== 'string') return undefined;
  const plain = value
    .normalize('NFKC')
    .toLowerCase()
    .replaceAll(/["'`‘’“”]/gu, '')
    .trim()
    .replace(/^(?:the|an?) /, '')
    .replace(/[.!?。]+$/u, '')
    .replace(/\(\)$/, '');
  const joined = plain.replaceAll(/[\s_-]+/g, '');
  return joined.length > 3 && !joined.endsWith('ss') ? joined.replace(/s$/, '') : joined;
}

/** Returns the words of a list, sorted: 'b and a' and 'a, b' are equal. */
export function answerWords(value: unknown): readonly string[] | undefined {
  const text = Array.isArray(value) ? value.join(',') : value;
  if (typeof text !== 'string') return undefined;
  const words = text
    .split(/\s*(?:[,;，；、+&]|\band\b|和|与)\s*|\s+/u)
    .flatMap((word) => answerWord(word) ?? []);
  return [...new Set(words.filter((word) => word !== ''))].sort();
}

/** Whether a value is what a function without `return` gives, on one rank or on each. */
export function isNothing(value: unknown): boolean {
  const values: readonly unknown[] = Array.isArray(value) ? value.flat(3) : [value];
  return values.length > 0 && values.every((each) => each === undefined);
}

/** Whether a value says that the user has not answered yet: the NaN or the '' of the notebook. */
export function isNoAnswer(value: unknown): boolean {
  return (
    value === undefined ||
    value === null ||
    (typeof value === 'string' && value.trim() === '') ||
    (typeof value === 'number' && Number.isNaN(value))
  );
}
