import assert from 'node:assert/strict';
import test from 'node:test';
import { collectGarbage } from '../../../src/wire/transport/collect-garbage';

test('an object that a WeakRef has read in the same turn is garbage, too', async () => {
  const isLiving = (reference: WeakRef<object>): boolean => reference.deref() !== undefined;
  const makeOne = (): WeakRef<object> => new WeakRef({ number: 1 });
  const read = (): void => {
    const reference = makeOne();
    assert.equal(isLiving(reference), true);
    collectGarbage();
    assert.equal(isLiving(reference), false);
  };
  read();
  await Promise.resolve();
  read();
});
