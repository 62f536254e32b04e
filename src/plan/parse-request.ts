import type { z } from 'zod';
import { issuesMessage, requirePlain, toIssues } from '../config/config-issue';
import { nearest } from '../config/nearest';
import { camelCase } from '../config/option-names';
import { spelled } from '../config/other-names';
import { keysOf } from '../config/setting-table';
import { ConfigError } from '../core/errors';
import { ownValue } from '../core/own-value';
import {
  OWN_VALUES,
  type PlanRequest,
  PUBLISHED_FACTS,
  planRequestSchema,
  REQUEST_FORMS,
  REQUEST_VALUES,
  REQUEST_WORDS,
} from './request';

/** Checks a plan request. Throws: CONFIG with every key that is wrong, and the nearest known key. */
export function parseRequest(input: unknown): PlanRequest {
  return parseWith(planRequestSchema, input);
}

/**
 * Checks an input against a schema; keys and values may also have another usual name or spelling ('virtual_stages',
 * 'bfloat16'). Throws: CONFIG whose details have the issues, with paths in our spelling.
 */
export function parseWith<T>(schema: z.ZodType<T>, input: unknown): T {
  requirePlain(input);
  const spelled = spelledOurWay(input);
  const parsed = schema.safeParse(spelled);
  if (parsed.success) return parsed.data;
  const issues = toIssues(parsed.error.issues, spelled, keysOf(schema), REQUEST_FORMS);
  throw new ConfigError(issuesMessage(issues), { issues });
}

/**
 * Returns a request without notes and measurements: keys that are not similar to any known key are removed. A misspelled key
 * is similar to a known key, so it stays, and is refused later. Within model, parallel and batch, nothing is removed.
 */
export function withoutNotes(request: object): {
  readonly request: object;
  readonly ignored: readonly string[];
} {
  const known = [...Object.keys(planRequestSchema.shape), ...Object.keys(REQUEST_WORDS)];
  const isNote = (key: string): boolean => !known.includes(key) && nearest(key, known) === undefined;
  const ignored = Object.keys(request).filter(isNote);
  if (ignored.length === 0) return { request, ignored };
  return { request: Object.fromEntries(Object.entries(request).filter(([key]) => !isNote(key))), ignored };
}

/** Returns our key for another usual name or spelling ('gpus_per_node'); any other key is returned unchanged. */
export function ourKey(key: string): string {
  const camel = camelCase(key);
  return ownValue(REQUEST_WORDS, key) ?? (OUR_KEYS.has(camel) ? camel : key);
}

const OUR_KEYS = new Set(Object.values(keysOf(planRequestSchema)).flat());

function spelledOurWay(value: unknown, key = ''): unknown {
  if (Array.isArray(value)) return value.map((each) => spelledOurWay(each));
  if (typeof value === 'string' || typeof value === 'boolean') {
    return valueOurWay(key, value);
  }
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value)
      .filter(
        ([name, each]) =>
          each !== null && each !== undefined && !(key === 'model' && PUBLISHED_FACTS.includes(name)),
      )
      .map(([name, each]) => {
        const ours = ourKey(name);
        return [ours, ours === 'inChannels' ? firstVariant(each) : spelledOurWay(each, ours)];
      }),
  );
}

function valueOurWay(key: string, value: string | boolean): unknown {
  const word = spelled(String(value));
  const meant = ownValue(ownValue<Readonly<Record<string, unknown>>>(REQUEST_VALUES, key) ?? {}, word);
  return meant ?? ownValue<readonly string[]>(OWN_VALUES, key)?.find((own) => spelled(own) === word) ?? value;
}

/** Returns the first value of { t2v: 16, i2v: 36 }: Wan2.2's models for text and for images differ in input channels. */
function firstVariant(value: unknown): unknown {
  return typeof value === 'object' && value !== null ? Object.values(value)[0] : value;
}
