import assert from 'node:assert/strict';
import { test } from 'node:test';
import { emptyNames } from './empty-names';
import { flatOf } from './layers';
import { readSources } from './sources';

/** Properties whose names are words of a file, an answer or a message that others read. */
const WORDS_OF_FILES: Readonly<Record<string, readonly string[]>> = {
  // The keys of the files in claims/, and of a reader's own claim.
  'src/claims/claim.ts': ['given', 'given', 'found', 'given'],
  'src/claims/notebook/own-claim.ts': ['given'],
  // The answer of `shardlab doctor --json`.
  'src/cli/doctor/checks.ts': ['found'],
  // A message of PyTorch's ranks.
  'src/launch/control/torch-messages.ts': ['what'],
};

/** The most declarations with empty names in a flat; 0 in all other flats. The numbers may only fall. */
const KNOWN: Readonly<Record<string, number>> = {
  config: 46,
  programs: 118,
  figures: 11,
  torch: 22,
  session: 80,
  extras: 15,
};

const declared = emptyNames(readSources('src', 'kernel', 'site/planner')).filter(
  ({ path, name }) => WORDS_OF_FILES[path]?.includes(name) !== true,
);

const numOf = (flat: string): number => declared.filter(({ path }) => flatIn(path) === flat).length;

test('parameters, variables, properties and types have names that say what they are', () => {
  const surplus = declared.filter(({ path }) => numOf(flatIn(path)) > (KNOWN[flatIn(path)] ?? 0));
  assert.deepEqual(
    surplus.map(({ path, line, name }) => `${path}:${line} ${name}`),
    [],
  );
});

test('a flat that has fewer empty names than before is known as such', () => {
  const fewer = Object.entries(KNOWN).filter(([flat, most]) => numOf(flat) < most);
  assert.deepEqual(
    fewer.map(([flat, most]) => `${flat}: ${most}, now ${numOf(flat)}`),
    [],
  );
});

test('a declaration with an empty name is found, and a name that a property has already is not', () => {
  const text = [
    'const found = 1;',
    'for (const one of rows) use(one);',
    'function sum(other: number, { given }: Options, [asked]: number[]) {}',
    'interface Said { readonly what: string }',
    'call({ found: 2, told });',
    'const { found: other, ...one } = options;',
    'class Walk { #told = 1; }',
  ];
  assert.deepEqual(
    emptyNames(new Map([['a.ts', text.join('\n')]])).map(({ line, name }) => `${line} ${name}`),
    ['1 found', '2 one', '3 other', '3 asked', '4 Said', '4 what', '6 other', '6 one', '7 #told'],
  );
});

function flatIn(path: string): string {
  return flatOf(path) ?? path.split('/')[0] ?? '';
}
