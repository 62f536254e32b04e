import type { z } from 'zod';
import { ConfigError, nearest, ownValue, shortened, shown } from '../core';
import { wordsOfIssue } from './issue-words';
import { fromOtherName, settingFromOtherName } from './other-names';
import { unplainParts } from './plain-input';
import { isPretrained } from './pretrained';
import type { ConfigIssue } from './setting';
import { FORMS, type KnownKeys, keysOf } from './setting-table';

type ZodIssue = z.core.$ZodIssue;

/** How settings are written, by path; messages about wrong values end with this text. */
export type Forms = Readonly<Record<string, string>>;

/** Translates zod's issues into ours; an issue about an unknown key names the nearest known key. */
export function toIssues(
  found: readonly ZodIssue[],
  input: unknown,
  known: KnownKeys,
  { forms = FORMS, moved = {} }: Partial<Words> = {},
): [ConfigIssue, ...ConfigIssue[]] {
  const issues = found
    .slice(0, MOST_ISSUES)
    .flatMap((issue) => translate(issue, [], input, { known, forms, moved }));
  const [first = { path: [], message: 'the config is not usable' }, ...rest] = issues;
  return [first, ...rest];
}

/** Returns an input that a schema accepts. Throws: CONFIG with everything that is wrong; paths begin with `base`. */
export function parsedBy<Schema extends z.ZodType>(
  schema: Schema,
  input: unknown,
  base: readonly string[] = [],
  words: Partial<Words> = { forms: {} },
): z.output<Schema> {
  const parsed = schema.safeParse(input);
  if (parsed.success) return parsed.data;
  const issues = toIssues(parsed.error.issues, input, keysOf(schema), words).map((issue) => ({
    ...issue,
    path: [...base, ...issue.path],
  }));
  throw new ConfigError(issuesMessage(issues), { issues });
}

/** Throws: CONFIG if the input has a part that no setting can be; see `unplainParts`. */
export function requirePlain(input: unknown): void {
  const issues = unplainParts(input);
  if (issues.length > 0) throw new ConfigError(issuesMessage(issues), { issues });
}

/** The first issues say enough about a list with thousands of wrong elements. */
const MOST_ISSUES = 100;

/** Returns issues as one message with one line for each, after `start`; what is too long for a message is left out. */
export function issuesMessage(issues: readonly ConfigIssue[], start = ''): string {
  const lines: string[] = [];
  let length = 0;
  for (const issue of firstOfLists(issues)) {
    const line = shortened(start + issueMessage(issue), MOST_LINE);
    length += line.length;
    if (length > MOST_LENGTH) break;
    lines.push(line);
  }
  const left = issues.length - lines.length;
  return [...lines, ...(left > 0 ? [`… and ${left} more`] : [])].join('\n');
}

const MOST_LINE = 500;
const MOST_LENGTH = 1000;

/** Leaves out most issues of a list with many wrong elements; the first ones show what is wrong with all. */
function firstOfLists(issues: readonly ConfigIssue[]): readonly ConfigIssue[] {
  const numOfLists = new Map<string, number>();
  return issues.filter(({ path }) => {
    const at = path.findIndex((part) => typeof part === 'number');
    if (at < 0) return true;
    const list = path.slice(0, at).join('.');
    const num = (numOfLists.get(list) ?? 0) + 1;
    numOfLists.set(list, num);
    return num <= MOST_OF_LIST;
  });
}

const MOST_OF_LIST = 3;

/** Returns an issue as one line, such as 'optimizer.lr: expected a number, got "fast"'. */
export function issueMessage(issue: ConfigIssue): string {
  return issue.path.length === 0 ? issue.message : `${issue.path.join('.')}: ${issue.message}`;
}

/** The words of messages. */
export interface Words {
  readonly forms: Forms;
  /** What to write in place of keys that are not known, by path. */
  readonly moved: Forms;
}

interface AllWords extends Words {
  readonly known: KnownKeys;
}

function translate(
  issue: ZodIssue,
  base: readonly (string | number)[],
  input: unknown,
  words: AllWords,
): ConfigIssue[] {
  const path = [...base, ...issue.path.filter((part) => typeof part !== 'symbol')];
  if (issue.code === 'unrecognized_keys') {
    return issue.keys.slice(0, MOST_ISSUES).map((key) => unknownKey(path, key, words));
  }
  const value = valueAt(input, path);
  // A message about a model's folder already says what to change.
  if (issue.code === 'custom' && isPretrained(value)) return [{ path, message: issue.message }];
  if (issue.code === 'invalid_union') {
    // For an object, the issues are those of the form that accepts objects; for another value, those of the first form.
    const branch = issue.errors.find((errors) =>
      typeof value === 'object'
        ? !errors.some((error) => error.path.length === 0 && WRONG_FORM.includes(error.code))
        : true,
    );
    const inner = (branch ?? []).flatMap((error) => translate(error, path, input, words));
    if (inner.length > 0) return inner;
    const fault = value === undefined ? 'is missing' : `has a wrong form, got ${shown(value)}`;
    return [{ path, message: `${fault}${formOf(path, words) || kindsOf(issue)}` }];
  }
  const expected = wordsOfIssue(issue);
  if (value === undefined) return [{ path, message: `is missing: ${expected}${formOf(path, words)}` }];
  const hint = issue.code === 'invalid_value' ? meant(value, issue.values.map(String)) : '';
  return [{ path, message: `${expected}, got ${shown(value)}${hint === '' ? formOf(path, words) : hint}` }];
}

/** Issues that a branch of a union reports if the branch accepts no objects. */
const WRONG_FORM: readonly ZodIssue['code'][] = ['invalid_value', 'invalid_type'];

/** Returns the values of `kind`, or of another key that decides between forms, if the issue is that this value is none of them. */
function kindsOf(issue: Extract<ZodIssue, { readonly code: 'invalid_union' }>): string {
  const kinds: readonly unknown[] = 'options' in issue && Array.isArray(issue.options) ? issue.options : [];
  return kinds.length === 0 ? '' : `; write ${kinds.map(shown).join(' or ')}`;
}

function formOf(path: readonly (string | number)[], { forms }: Pick<Words, 'forms'>): string {
  const form = forms[path.join('.')];
  return form === undefined ? '' : `; write ${form}`;
}

/**
 * Returns a hint that names an allowed value: a value with a similar spelling (without 'torch.'), or the value that another
 * library calls by the given name.
 */
function meant(value: unknown, allowed: readonly string[]): string {
  if (typeof value !== 'string') return '';
  const bare = value.split('.').at(-1) ?? value;
  const digits = bare.replaceAll(/\D/g, '');
  // A name with other digits is another dtype: 'fp32' is not a misspelled 'fp16'.
  const alike = allowed.filter((name) => digits.length < 2 || name.replaceAll(/\D/g, '') === digits);
  const name = fromOtherName(bare) ?? nearest(bare, alike);
  return name !== undefined && allowed.includes(name) ? `; did you mean "${name}"?` : '';
}

function unknownKey(
  base: readonly (string | number)[],
  key: string,
  { known, forms, moved }: AllWords,
): ConfigIssue {
  const path = [...base, shortened(key, 60)];
  const today = ownValue(moved, [...base, key].join('.'));
  if (today !== undefined) return { path, message: `unknown key; write ${today}` };
  const place = base.join('.');
  const here = ownValue(known, place) ?? [];
  const exact = Object.entries(known).find(([other, keys]) => other !== place && keys.includes(key));
  if (exact !== undefined)
    return { path, message: `unknown key; write ${exact[0] === '' ? key : `${exact[0]}.${key}`}` };
  const near = nearest(key, base.length === 0 ? [...here, ...Object.keys(moved)] : here);
  if (near !== undefined) return { path, message: `unknown key; did you mean "${near}"?` };
  const elsewhere = settingFromOtherName(key) ?? placeOf(key, known);
  if (elsewhere !== undefined) return { path, message: `unknown key; write ${elsewhere}` };
  const all =
    here.length === 0 ? formOf(base, { forms }).slice('; '.length) : `choose one of ${here.join(', ')}`;
  return { path, message: all === '' ? 'unknown key' : `unknown key; ${all}` };
}

/** Returns the path of a setting with this key, such as 'parallel.strategy'; undefined if no setting has it. */
function placeOf(key: string, known: KnownKeys): string | undefined {
  for (const [place, keys] of Object.entries(known)) {
    const found = keys.find((name) => name.toLowerCase() === key.toLowerCase().replaceAll(/[-_]/g, ''));
    if (found !== undefined) return place === '' ? found : `${place}.${found}`;
  }
  return undefined;
}

/** Returns the value at a path; undefined if a part of the path is missing. */
export function valueAt(input: unknown, path: readonly (string | number)[]): unknown {
  let value = input;
  for (const part of path) {
    if (typeof value !== 'object' || value === null) return undefined;
    value = Object.hasOwn(value, part) ? Reflect.get(value, part) : undefined;
  }
  return value;
}
