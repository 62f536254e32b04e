import assert from 'node:assert/strict';
import { test } from 'node:test';
import { locatedText } from '../../src/config/located-text';

const refused = (text: string, message: RegExp): void => {
  assert.throws(() => locatedText(text, 'x.yaml'), { code: 'CONFIG', message });
};

test('a bomb of YAML aliases is refused, and the error names its line', () => {
  const levels = Array.from({ length: 12 }, (_, i) => {
    const below = i === 0 ? '"lol"' : `*a${i - 1}`;
    return `a${i}: &a${i} [${Array(9).fill(below).join(', ')}]`;
  });
  refused(`# first\n${levels.join('\n')}\n`, /x\.yaml:\d+:\d+: aliases/);
});

test('an alias of the mapping around it is refused', () => {
  refused('a: &a\n  b: *a\n', /x\.yaml:2:\d+: /);
});

test('text that is nested too deep for a config is refused', () => {
  for (const depth of [100, 5000, 100_000]) {
    refused(`${'['.repeat(depth)}${']'.repeat(depth)}`, /x\.yaml:1: nested/);
    refused(`${'{"a":'.repeat(depth)}1${'}'.repeat(depth)}`, /x\.yaml:1: nested/);
  }
  const indented = Array.from({ length: 300 }, (_, i) => `${' '.repeat(i)}a:`).join('\n');
  refused(`# first\n"two\nlines": 1\n${indented}`, /x\.yaml:68: nested/);
});

test('text that is too long for a config is refused before it is parsed', () => {
  refused(JSON.stringify({ notes: 'x'.repeat(2 ** 21) }), /x\.yaml: .*long/);
});

test('a few aliases are read as their values', () => {
  assert.deepEqual(locatedText('a: &a { b: 1 }\nc: *a\n', 'x.yaml').input, { a: { b: 1 }, c: { b: 1 } });
});

test('a tag that is not known is refused, because its value would be taken without it', () => {
  for (const tag of ['!!python/object/apply:os.system', '!!js/function', '!ENV'])
    assert.throws(() => locatedText(`model: ${tag} tiny`, 'tag.yaml'), {
      code: 'CONFIG',
      message: /^tag\.yaml:1:8: /,
    });
  assert.deepEqual(locatedText('batch: !!int "4"', 'tag.yaml').input, { batch: 4 });
});
