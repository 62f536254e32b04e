import assert from 'node:assert/strict';
import { test } from 'node:test';
import { barrierWord, isLater, isStale, tagged } from '../../../src/wire/transport/epoch-word';

test('words of earlier and later epochs are distinguished, also when the count wraps', () => {
  for (const epoch of [1, 2, 4095, 4096, 4097]) {
    assert.equal(isLater(tagged(epoch, 7), epoch), false);
    assert.equal(isStale(tagged(epoch, 7), epoch), false);
    assert.equal(isLater(barrierWord(epoch + 1, 0, 1), epoch), true);
    assert.equal(isLater(barrierWord(epoch - 1, 4095, 3), epoch), false);
    assert.equal(isStale(barrierWord(epoch - 1, 4095, 3), epoch), true);
  }
});
