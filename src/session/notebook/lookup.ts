import {
  anyText,
  errorsOf,
  FRAGMENTS,
  type Fragment,
  fragmentKeys,
  fragmentText,
  lettersOf,
  MODEL_PARTS,
  nearest,
  requireKind,
  SETTING_ROWS,
  type Trial,
} from '../../config';
import GLOSSARY from '../../config/terms.json';
import { ConfigError, type Shown, shown, shownAsText, withShown } from '../../core';
import { createTable, type Table } from '../../figures';
import { KNOWN_GPUS, placeSchema } from '../../planner';
import { dialects, type Effect, handOvers, placesOf, pythonCalls, rowOf } from '../../programs';

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
    const known = termsOf(word, terms);
    if (known.length > 0) return lookedUp(known, '');
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

/** A name that a library, a program or a document uses. */
export interface Term {
  readonly name: string;
  /** Who has the name: 'torch.distributed.fsdp', 'DeepSpeed', 'shardlab', or a document. */
  readonly of: readonly string[];
  readonly says: string;
  /** What to write here, or why there is nothing to write. */
  readonly here: string;
  /** Code of a document, and how it ended on the original libraries. */
  readonly fragment?: Fragment;
}

/** Returns all names: those of the field, our settings, the documents' code, and the keys of the programs that are read. */
function allTerms(): readonly Term[] {
  return [
    ...glossary(),
    ...settings(),
    ...places(),
    ...FRAGMENTS.map(ofFragment),
    ...commands(),
    ...programs(),
  ];
}

/** Names of the field by who has them: meaning and what to write here, or another name of the same group with this meaning. */
type Glossary = Readonly<Record<string, Readonly<Record<string, readonly string[] | string>>>>;

function glossary(): Term[] {
  return Object.entries(GLOSSARY as Glossary).flatMap(([of, terms]) =>
    Object.entries(terms).map(([name, meaning]) => {
      const [says = '', here = ''] = typeof meaning === 'string' ? (terms[meaning] ?? []) : meaning;
      return { name, of: [of], says, here };
    }),
  );
}

/** Returns the keys of a plan's place, and the kinds of GPU. */
function places(): Term[] {
  const of = ['shardlab'];
  const keys = Object.keys(placeSchema.shape).map((name) => ({
    name,
    of,
    says: "a key of a plan's place: the GPUs, and how the programs there compute",
    here: `sl.plan(config, { ${name}: … }), or beside the config's keys`,
  }));
  const gpus = Object.entries(KNOWN_GPUS).flatMap(([name, { tflops, memoryGB }]) =>
    [...new Set([name, name.replace(/-.*/, '')])].map((word) => ({
      name: word,
      of,
      says: `a GPU with ${memoryGB} GB and ${tflops} TFLOP/s in 16 bits`,
      here: `sl.plan(config, { on: '${name}' })`,
    })),
  );
  return [...keys, ...gpus];
}

/** Returns our settings, and the names that PyTorch and FairScale have for them; the tables of programs have the programs' names. */
function settings(): Term[] {
  const parts = Object.entries(MODEL_PARTS).map(([key, part]) => ({ ...part, path: `model.${key}` }));
  const own = [...SETTING_ROWS, ...parts].map(({ path, says, form }) => ({
    name: path,
    of: ['shardlab'],
    says,
    here: form ?? `the setting ${path}`,
  }));
  const elsewhere = SETTING_ROWS.flatMap(({ path, says, names = {} }) =>
    Object.entries(CALLS).flatMap(([original, of]) =>
      [names[original as keyof typeof CALLS] ?? []]
        .flat()
        .map((name) => ({ name, of: [of], says, here: path })),
    ),
  );
  return [...own, ...elsewhere];
}

/** Places whose names of settings are arguments of calls, and whom they belong to. */
const CALLS = { torch: 'torch', fsdp: 'FSDP', fairScale: 'FairScale' } as const;

function ofFragment(fragment: Fragment): Term {
  const { name, document, asWritten, inTheOriginal, here } = fragment;
  return { name, of: [document], says: inTheOriginal === '' ? asWritten : inTheOriginal, here, fragment };
}

const EFFECTS: Readonly<Record<Exclude<Effect, 'error'>, string>> = {
  used: 'it is used',
  planned: 'only plans use it',
  exported: "it is for the program's own launcher",
  none: 'it has no effect',
  warning: 'it is read with a warning',
  refused: 'it is refused',
};

/** Returns the keys of all programs. Programs that give a key the same meaning share a term. */
function programs(): Term[] {
  const terms = new Map<string, Term>();
  for (const { name: program, keys } of dialects()) {
    for (const name of placesOf(keys)) {
      const row = rowOf(keys, name);
      if (row === null || row.parts !== undefined) continue;
      const [says, here] =
        row.effect === null || row.effect === 'error'
          ? [saysOf(row.says), row.says]
          : [row.says, EFFECTS[row.effect]];
      const own = keys === pythonCalls().keys ? argumentOf(name) : { name, of: program };
      const id = JSON.stringify([own.name, says, here]);
      terms.set(id, { name: own.name, of: [...(terms.get(id)?.of ?? []), own.of], says, here });
    }
  }
  return [...terms.values()];
}

/** Returns the commands that come before or after a training. */
function commands(): Term[] {
  return handOvers().map(({ program, words, why }) => {
    const [says = '', ...here] = why.split('; ');
    return { name: words.join(' '), of: [program], says, here: here.join('; ') };
  });
}

/** Returns an argument of a call, 'TrainingArguments.learning_rate', as a name of the class or function. */
function argumentOf(path: string): { readonly name: string; readonly of: string } {
  const [call = '', ...argument] = path.split('.');
  return argument.length === 0 ? { name: call, of: 'Python' } : { name: argument.join('.'), of: call };
}

/** Returns the meaning of settings, which are given by their paths. */
function saysOf(paths: string): string {
  const row = SETTING_ROWS.find(({ path }) => path === paths);
  return row?.says ?? paths;
}
