import type { z } from 'zod';
import { nearest } from './nearest';
import { fromOtherName } from './other-names';

/** One thing that is wrong with a config. */
export interface ConfigIssue {
  /** The key's place: ['optimizer', 'lr']. */
  readonly path: readonly (string | number)[];
  readonly message: string;
}

type ZodIssue = z.core.$ZodIssue;

/** Says in our words what zod found; an unknown key names the nearest known one. */
export function toIssues(
  found: readonly ZodIssue[],
  input: unknown,
  knownKeys: (path: string) => readonly string[],
): [ConfigIssue, ...ConfigIssue[]] {
  const issues = found.flatMap((issue) => translate(issue, [], input, knownKeys));
  const [first = { path: [], message: 'the config is not usable' }, ...rest] = issues;
  return [first, ...rest];
}

/** One line: 'optimizer.lr: expected number, got "fast"'. */
export function issueMessage(issue: ConfigIssue): string {
  return issue.path.length === 0 ? issue.message : `${issue.path.join('.')}: ${issue.message}`;
}

function translate(
  issue: ZodIssue,
  base: readonly (string | number)[],
  input: unknown,
  knownKeys: (path: string) => readonly string[],
): ConfigIssue[] {
  const path = [...base, ...issue.path.filter((part) => typeof part !== 'symbol')];
  if (issue.code === 'unrecognized_keys') {
    return issue.keys.map((key) => unknownKey([...path, key], knownKeys(path.join('.'))));
  }
  const value = valueAt(input, path);
  if (issue.code === 'invalid_union') {
    // An object was meant as the object form, anything else as one of the names.
    const branch = issue.errors.find((errors) =>
      typeof value === 'object'
        ? !errors.some((error) => error.path.length === 0 && error.code === 'invalid_value')
        : true,
    );
    return (branch ?? []).flatMap((error) => translate(error, path, input, knownKeys));
  }
  const said = lowerFirst(issue.message.replace(/^Invalid (input|option): /, ''));
  const hint = issue.code === 'invalid_value' ? meant(value, issue.values.map(String)) : '';
  return [{ path, message: `${said}, got ${JSON.stringify(value)}${hint}` }];
}

/** The value that was probably meant: one spelled alike, or ours for another library's name. */
function meant(value: unknown, allowed: readonly string[]): string {
  if (typeof value !== 'string') return '';
  const name = fromOtherName(value) ?? nearest(value, allowed);
  return name !== undefined && allowed.includes(name) ? `; did you mean "${name}"?` : '';
}

function unknownKey(path: readonly (string | number)[], known: readonly string[]): ConfigIssue {
  const near = nearest(String(path.at(-1)), known);
  const hint = near === undefined ? `known are ${known.join(', ')}` : `did you mean "${near}"?`;
  return { path, message: `unknown key; ${hint}` };
}

function valueAt(input: unknown, path: readonly (string | number)[]): unknown {
  let value = input;
  for (const part of path) {
    if (typeof value !== 'object' || value === null) return undefined;
    value = Object.entries(value).find(([key]) => key === String(part))?.[1];
  }
  return value;
}

function lowerFirst(text: string): string {
  return text.charAt(0).toLowerCase() + text.slice(1);
}
