import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Excerpt, shortened, shortenedBundle } from '../../src/cell/excerpt';

describe('an excerpt', () => {
  it('shows a text within its bounds whole, in order', () => {
    const excerpt = new Excerpt(100);
    assert.equal(excerpt.add('a'.repeat(85)), 'a'.repeat(85));
    const rest = excerpt.add('b'.repeat(15)) + excerpt.end();
    assert.equal(rest, 'b'.repeat(15));
  });

  it('shows the start of a long text at once and its end at the end, and counts the characters between', () => {
    const excerpt = new Excerpt(100);
    let shown = '';
    for (let i = 0; i < 1000; i++) shown += excerpt.add(`${String(i).padStart(9)}\n`);
    assert.match(
      shown,
      / 8\n\n… this cell has printed 90 characters; of the further output, only the last 10 characters are shown, when the cell ends …\n$/,
    );
    assert.match(excerpt.end(), /^\n… 9,900 characters are left out here; .*…\n {6}999\n$/s);
  });
});

describe('output that is too large for a browser', () => {
  it('shortens a long text in the middle', () => {
    assert.equal(shortened('abc', 4), 'abc');
    assert.match(shortened('abcdefg', 4), /^ab\n… 3 characters are left out here; .*…\nfg$/s);
  });

  it('drops parts of a bundle that are too large, and its text names them', () => {
    const small = { 'text/html': '<b>', 'text/plain': 'b' };
    assert.equal(shortenedBundle(small), small);
    const cut = shortenedBundle({ 'image/png': 'x'.repeat(2e7), 'text/plain': 'a picture' });
    assert.match(
      String(cut['text/plain']),
      /^a picture\nimage\/png of 20,000,000 characters is not shown; to see the whole output, write it/,
    );
    assert.equal(cut['image/png'], undefined);
  });
});
