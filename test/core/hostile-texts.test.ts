import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { ConfigError, ShardlabError } from '../../src/core/errors';
import { parseJson } from '../../src/core/json-text';
import { ownValue } from '../../src/core/own-value';
import { MOST_CONFIG_BYTES, readRegularFile } from '../../src/core/regular-file';

const folder = mkdtempSync(join(tmpdir(), 'texts-'));
after(() => rmSync(folder, { recursive: true, force: true }));

function written(name: string, content: string | Uint8Array): string {
  const file = join(folder, name);
  writeFileSync(file, content);
  return file;
}

test('a text that is not UTF-8 is refused with the line, because its wrong bytes would become other characters', () => {
  const latin = written('latin.yaml', Buffer.from('model: tiny\ndata: donn\xe9es.txt\n', 'latin1'));
  assert.throws(() => readRegularFile(latin), {
    code: 'IO',
    message: /not UTF-8 in line 2; save it as UTF-8$/,
  });
  for (const mark of ['fffe', 'feff']) {
    const wide = written('wide.yaml', Buffer.concat([Buffer.from(mark, 'hex'), Buffer.from('m', 'utf16le')]));
    assert.throws(() => readRegularFile(wide), { code: 'IO', message: /is UTF-16; save it as UTF-8$/ });
  }
  assert.equal(readRegularFile(written('mark.yaml', '\uFEFFmodel: \u00e9')), 'model: \u00e9');
  assert.equal(readRegularFile(written('own.txt', 'a \uFFFD b')), 'a \uFFFD b');
});

test('a file that is larger than any file of its kind is refused before it is read', () => {
  const large = written('large.yaml', 'model: tiny\n');
  truncateSync(large, 3e9);
  const { rss } = process.memoryUsage();
  assert.throws(() => readRegularFile(large), { code: 'IO', message: /has 3000000000 bytes, and at most/ });
  assert.throws(() => readRegularFile(large, MOST_CONFIG_BYTES), {
    code: 'IO',
    message: /at most 4194304 are/,
  });
  assert.ok(process.memoryUsage().rss - rss < 2 ** 28);
});

test('JSON of many levels is refused, and brackets in texts are no levels', () => {
  const deep = (levels: number): string => '['.repeat(levels) + ']'.repeat(levels);
  assert.throws(() => parseJson(deep(101)), SyntaxError);
  assert.throws(() => parseJson(`${'{"a":'.repeat(1e5)}1${'}'.repeat(1e5)}`), /levels of brackets/);
  assert.deepEqual(parseJson(deep(2)), [[]]);
  for (const text of ['['.repeat(200), '\\', '"', `\\"${'{'.repeat(200)}`, '\\\\'])
    assert.deepEqual(parseJson(JSON.stringify({ [text]: [text] })), { [text]: [text] });
  for (const text of ['"', '"\\"', '{"a', '{"a\\']) assert.throws(() => parseJson(text), SyntaxError);
});

test('a table has no value for the names that every object inherits', () => {
  for (const name of ['constructor', 'toString', '__proto__', 'hasOwnProperty'])
    assert.equal(ownValue({ a: 1 }, name), undefined);
  assert.equal(ownValue({ a: 1 }, 'a'), 1);
});

test('a message shows the characters that a terminal would obey, and fits a page', () => {
  assert.equal(new ConfigError('a\x1b]0;b\x07\x9bc\td\r\ne').message, 'a\\x1b]0;b\\x07\\x9bc\td\r\ne');
  const { message } = new ShardlabError('IO', `${'x'.repeat(1e7)}; copy it again`);
  assert.ok(message.length < 21_000);
  assert.match(message, /x… \(10000015 characters\) …x+; copy it again$/);
});
