import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import codes from '../../../src/core/chinese/codes.json';
import commander from '../../../src/core/chinese/commander.json';
import { hasEnglish } from '../../../src/core/chinese/in-chinese';
import phrases from '../../../src/core/chinese/phrases.json';
import { TABLES } from '../../../src/core/chinese/tables';
import { repositoryRoot } from '../../support/paths';
import { messagesOf } from './message-patterns';
import { type Term, translationFaults } from './translation-faults';

const root = repositoryRoot();
const messages = messagesOf(root, ['src', 'kernel']);
const entries = TABLES.flatMap((table) => Object.entries(table));
const translated = new Set(entries.map(([english]) => english));

test('the sentences of errors are found in the code', (context) => {
  const { sentences, phrases, unknown } = messages;
  context.diagnostic(
    `${sentences.length} first sentences, ${phrases.length} phrases; ${unknown.length} texts made elsewhere`,
  );
  assert.ok(sentences.length > 1000 && phrases.length > 300 && unknown.length < 155);
  const patterns = sentences.map(({ pattern }) => pattern);
  assert.ok(patterns.includes("tp ({0}) must divide the model's {1} heads"));
  // A text in several branches, a text of a helper function, and a message that a caller gives.
  assert.ok(patterns.includes("no claim is called '{0}'."));
  assert.ok(patterns.includes('{0} took longer than {1} s and was ended; {2}'));
});

test('every first sentence of an error, and every phrase within one, has a translation', () => {
  const without = [...messages.sentences, ...messages.phrases].filter(
    ({ pattern }) => !translated.has(pattern),
  );
  assert.deepEqual(
    without.map(({ file, line, pattern }) => `${file}:${line}: ${pattern}`),
    [],
    'add them to the table of their folder in src/core/chinese/tables',
  );
});

test('every translation is of a text in the code, and no text has two', () => {
  const inCode = new Set([...messages.sentences, ...messages.phrases].map(({ pattern }) => pattern));
  const stale = entries.filter(
    ([english]) => !inCode.has(english) && !(english in commander || english in phrases),
  );
  assert.deepEqual(
    stale.map(([english]) => english),
    [],
    'remove them from src/core/chinese/tables',
  );
  assert.equal(translated.size, entries.length);
});

test('translations have the holes, the code and the ends of their English texts, with the punctuation and words of Chinese', () => {
  const terms = termsOf(readFileSync(join(root, 'docs', 'zh', 'words.md'), 'utf8'));
  assert.ok(terms.length > 20);
  assert.deepEqual(
    entries.flatMap(([english, chinese]) => translationFaults(english, chinese, terms)),
    [],
  );
});

/** What a translation has in English because a terminal or a cell has it so. */
const COMMANDS =
  /(?:npm|pip|shardlab) [a-z]+ \w+|import \* as sl from|model, optimizer, dict|dp x tp x pp x cp/g;

test('no translation has a part of an English sentence', () => {
  const chinese = entries.map(([, text]) => text.replaceAll(COMMANDS, '·'));
  assert.deepEqual(chinese.filter(hasEnglish), []);
  assert.ok(hasEnglish('张量 [1]，无法发送；send its values: x.arraySync()'));
  assert.ok(!hasEnglish("应为 'a text of words' 或 { key: value with words }"));
});

test('every code of an error has a meaning in Chinese', () => {
  const source = readFileSync(join(root, 'src', 'core', 'errors.ts'), 'utf8');
  const known = [...source.matchAll(/^ {2}\| '([A-Z_]+)'/gm)].map(([, code]) => code);
  assert.deepEqual(Object.keys(codes), known);
});

/** Words of the glossary that have one meaning only, wherever a message uses them. */
const CHECKED: readonly string[] = [
  'data parallelism',
  'tensor parallelism',
  'pipeline parallelism',
  'context parallelism',
  'expert parallelism',
  'microbatch',
  'gradient accumulation',
  'activation checkpointing',
  'mixed precision',
  'collective',
  'segment',
  'fingerprint',
  'optimizer state',
  'ledger',
  'dry run',
  'layout',
  'claim',
  'verdict',
  'prefetch',
  'bandwidth',
  'latency',
  'main thread',
  'comm thread',
  'courier thread',
  'expert',
  'strategy',
];

/** The rows of the glossary about these words: each word with the Chinese words for it. */
function termsOf(glossary: string): Term[] {
  const rows = [...glossary.matchAll(/^\| ([^|]+) \| ([^|]+) \|/gm)];
  return rows.flatMap(([, english = '', chinese = '']) =>
    english.split(', ').flatMap((term) => {
      const word = term.replace(/ \(.*\)$/, '');
      const variants = chinese.split(/[、（）]/).map((variant) => variant.trim());
      return CHECKED.includes(word) && variants[0] !== '中文'
        ? [{ word, chinese: variants.filter((variant) => variant !== '') }]
        : [];
    }),
  );
}
