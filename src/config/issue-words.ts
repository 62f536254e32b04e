import type { z } from 'zod';
import { ownValue } from '../core';

type ZodIssue = z.core.$ZodIssue;

/*
 * [Note: words of issues] zod's own messages ("Too small: expected array to have >=2 items") never reach a user: whatever a schema
 * refuses is said in the words of this file, or in the text that the schema's row gives to a `refine` or a `custom`.
 */

/** Says what an issue's schema expects, as 'expected a whole number of at least 1'. */
export function wordsOfIssue(issue: ZodIssue): string {
  const isOwnText = !ZODS_TEXT.test(issue.message);
  if (isOwnText) return issue.message;
  switch (issue.code) {
    case 'invalid_type':
      return `expected ${ownValue(TYPES, issue.expected) ?? `a value of type ${issue.expected}`}`;
    case 'too_small':
      return `expected ${sizeOf(issue, issue.inclusive === false ? 'above' : 'of at least', issue.minimum)}`;
    case 'too_big':
      return `expected ${sizeOf(issue, issue.inclusive === false ? 'below' : 'of at most', issue.maximum)}`;
    case 'invalid_value':
      return `expected ${issue.values.length === 1 ? '' : 'one of '}${issue.values.map(quoted).join('|')}`;
    case 'not_multiple_of':
      return `expected a multiple of ${issue.divisor}`;
    case 'invalid_format':
      return 'pattern' in issue && issue.pattern !== undefined
        ? `expected a text that matches ${issue.pattern}`
        : `expected a text in the format ${issue.format}`;
    case 'unrecognized_keys':
      return `has unknown keys: ${issue.keys.join(', ')}`;
    case 'invalid_union':
      return 'has a wrong form';
    case 'invalid_key':
      return `expected a key: ${innerWords(issue.issues)}`;
    case 'invalid_element':
      return `expected elements: ${innerWords(issue.issues)}`;
    case 'custom':
      return 'has a value that is not allowed here';
    default:
      return issue satisfies never;
  }
}

/** Returns a refused value's issues in one text, each with its path: 'files.0: expected a text; size: expected a number'. */
export function wordsOfIssues(issues: readonly ZodIssue[]): string {
  return issues
    .map((issue) => (issue.path.length === 0 ? '' : `${issue.path.join('.')}: `) + wordsOfIssue(issue))
    .join('; ');
}

/** The beginning of every message of zod's own. Source: zod's locales/en. */
const ZODS_TEXT = /^(Invalid|Too (big|small)|Unrecognized)\b/;

const TYPES: Readonly<Record<string, string>> = {
  number: 'a number',
  int: 'a whole number',
  string: 'a text',
  boolean: 'true or false',
  array: 'a list',
  tuple: 'a list',
  object: 'an object',
  record: 'an object',
  null: 'null',
  undefined: 'no value',
  function: 'a function',
  bigint: 'a bigint',
};

type SizeIssue = Extract<ZodIssue, { readonly code: 'too_small' | 'too_big' }>;

function sizeOf({ origin, exact }: SizeIssue, bound: string, limit: number | bigint): string {
  const isList = origin === 'array' || origin === 'set' || origin === 'map';
  if (!isList && origin !== 'string') return `a ${origin === 'int' ? 'whole ' : ''}number ${bound} ${limit}`;
  const what = isList ? 'a list' : 'a text';
  if (bound === 'of at least' && Number(limit) === 1 && exact !== true) return `${what} that is not empty`;
  return `${what} ${exact === true ? 'of' : bound} ${limit} ${isList ? 'values' : 'characters'}`;
}

function innerWords(issues: readonly ZodIssue[]): string {
  return issues.map((issue) => wordsOfIssue(issue).replace(/^expected /, '')).join(', and ');
}

function quoted(value: unknown): string {
  return typeof value === 'string' ? `"${value}"` : String(value);
}
