import {
  anyText,
  errorsOf,
  FRAGMENTS,
  type Fragment,
  fragmentKeys,
  fragmentText,
  lettersOf,
  nearest,
  requireKind,
  type Trial,
} from '../../config';
import { ConfigError, type Shown, shown, shownAsText, withShown } from '../../core';
import { createTable, type Table } from '../../figures';
import { allTerms, type Term } from './terms';

/** What a name means, and what to write here for it. */
export interface Lookup {
  /** The name that was found, as the first term spells it. */
  readonly name: string;
  /** The meanings of the name; the one whose spelling fits best is first, and parts of the documents' code are last. */
  readonly terms: readonly Term[];
  /** The documents' code with this name, and its outcome on the original libraries; null if there is none. */
  readonly fragment: Fragment | null;
}

/**
 * Returns a table with a row per name that the documents use: the error of the documents' code with this name on the original
 * libraries, and whether shardlab has the name.
 */
export function lookup(): Table;
/**
 * Returns what a name means, and what to write here for it. It knows the names of torch.distributed, FSDP, DeepSpeed, Megatron-LM and
 * Accelerate, our settings, the keys and arguments of every program that is read, and the code of the documents, with its outcome on the
 * original libraries. Shown as text. Throws: CONFIG for a word that is near to no name.
 * @example
 * sl.lookup('reduce_scatter')
 */
export function lookup(name: string): Lookup & Shown;
export function lookup(name?: string): Table | (Lookup & Shown) {
  if (name === undefined) return allFragments();
  requireKind('lookup', 'the argument', name, anyText);
  const terms = allTerms();
  // The last part of a name may be known alone: 'torch.optim.AdamW'.
  for (const word of [name, name.split('.').at(-1) ?? name]) {
    const found = termsOf(word, terms);
    if (found.length > 0) return lookedUp(found, '');
  }
  const near = nearest(name.replace(/^-+/, ''), [...new Set(terms.flatMap(namesOf))]);
  if (near === undefined) {
    throw new ConfigError(
      `lookup: no library, program or document that is known here has the name ${shown(name)}. lookup() lists the documents' names; ` +
        "others are 'fully_shard', 'zero_optimization.stage', 'parallel.strategy'",
      { word: shown(name) },
    );
  }
  return lookedUp(termsOf(near, terms), `${shown(name)} is no known name; the nearest is ${near}\n`);
}

/** The number of meanings that the text has. */
const MOST = 6;

function lookedUp(terms: readonly Term[], head: string): Lookup & Shown {
  const more = terms.length > MOST ? [`… and ${terms.length - MOST} more`] : [];
  const text = [...terms.slice(0, MOST).map(termText), ...more].join('\n');
  const fragment = terms.find((term) => term.fragment !== undefined)?.fragment ?? null;
  return withShown({ name: terms[0]?.name ?? '', terms, fragment }, shownAsText(head + text));
}

function termText({ name, of, says, here, fragment }: Term): string {
  return fragment === undefined
    ? `${name} (${of.join(', ')}): ${says}\n  here             ${here}`
    : fragmentText(fragment);
}

/** Returns the terms with a name: those with the same spelling first, and those that have the name only as a part last. */
function termsOf(word: string, terms: readonly Term[]): readonly Term[] {
  const plain = word.replace(/^-+/, '');
  const key = lettersOf(plain);
  return terms
    .map((term) => [rankOf(plain, key, term), term] as const)
    .filter(([rank]) => rank !== NONE)
    .sort(([a], [b]) => a - b)
    .map(([, term]) => term);
}

const [PART, NONE] = [3, 4];

/** Returns 0 for the same name, 1 for the same last part, 2 for another spelling, PART for a part of a document's code, else NONE. */
function rankOf(word: string, key: string, term: Term): number {
  if (term.name === word) return 0;
  const names = namesOf(term);
  if (names.includes(word)) return 1;
  if (names.some((name) => lettersOf(name) === key)) return 2;
  return term.fragment !== undefined && fragmentKeys(term.fragment).includes(key) ? PART : NONE;
}

/** Returns a term's name, and the name without its sections: 'stage' for 'zero_optimization.stage'. */
function namesOf({ name }: Term): readonly string[] {
  return /^[\w.]+$/.test(name) ? [name, name.split('.').at(-1) ?? name] : [name];
}

function allFragments(): Table {
  const rows = FRAGMENTS.map(({ name, document, tried, status, here }) => ({
    name,
    document,
    original: originalText(tried),
    status,
    here,
  }));
  return createTable(rows, { title: `${rows.length} pieces of code` });
}

function originalText(tried: readonly Trial[]): string {
  if (tried.length === 0) return 'not tried';
  const errors = [...new Set(tried.flatMap(errorsOf))];
  if (errors.length > 0) return errors.join(', ');
  return tried.every(({ outcome }) => outcome === 'runs') ? 'runs' : 'see its lookup';
}
