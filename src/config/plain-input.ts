import { classOf, isRecord, shortened, shown } from '../core';
import type { ConfigIssue } from './setting';

/** Settings are nested less deep, as in a file (located-text.ts). */
const MOST_DEPTH = 64;
/** Longer lists are data, such as tokens; the schema reads them. */
const MOST_LISTED = 1000;
/** No section has more keys. */
const MOST_KEYS = 200;

/**
 * Finds what no setting can be, before the schema reads the input: instances of classes in place of sections (a Map would be
 * read as a section without keys), integers as bigint, cycles, and objects that throw when they are read.
 */
export function unplainParts(input: unknown): ConfigIssue[] {
  const issues: ConfigIssue[] = [];
  const path: (string | number)[] = [];
  const within: object[] = [];
  const visit = (value: unknown): void => {
    if (typeof value === 'bigint') add(`expected a number, got ${shown(value)}; write it without the n`);
    else if (typeof value !== 'object' || value === null) return;
    else if (within.includes(value)) add('contains itself');
    else if (within.length >= MOST_DEPTH) add(`is nested in more than ${MOST_DEPTH} levels`);
    else {
      within.push(value);
      read(value);
      within.pop();
    }
  };
  const add = (message: string): void =>
    void issues.push({
      path: path.map((part) => (typeof part === 'string' ? shortened(part, 40) : part)),
      message,
    });
  const read = (value: object): void => {
    let entries: [string | number, unknown][];
    try {
      // Typed arrays are data.
      if (ArrayBuffer.isView(value)) return;
      if (!Array.isArray(value) && !isRecord(value)) {
        add(`expected settings such as { key: value }, got ${classOf(value)}`);
        return;
      }
      entries = Array.isArray(value) ? [...value.slice(0, MOST_LISTED).entries()] : Object.entries(value);
    } catch (error) {
      add(`cannot be read: reading it throws ${shown(String(error))}`);
      return;
    }
    if (!Array.isArray(value) && entries.length > MOST_KEYS) {
      add(`expected settings, got an object with ${entries.length} keys`);
      return;
    }
    for (const [key, inner] of entries) {
      path.push(key);
      visit(inner);
      path.pop();
    }
  };
  visit(input);
  return issues;
}
