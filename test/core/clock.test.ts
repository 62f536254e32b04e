import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SimulatedClock } from '../../src/core/clock';

test('time passes by what is computed, and not by itself', () => {
  const clock = new SimulatedClock();
  assert.equal(clock.now(), 0);
  clock.compute(2);
  clock.compute(3);
  assert.equal(clock.now(), 5);
});

test('what is posted to a stream starts when it was posted and the stream is free; other streams do not matter', () => {
  const clock = new SimulatedClock();
  clock.compute(1);
  assert.deepEqual(clock.post('a', 10), { started: 1, ended: 11 });
  clock.compute(1);
  assert.deepEqual(clock.post('a', 5), { started: 11, ended: 16 });
  assert.deepEqual(clock.post('b', 5), { started: 2, ended: 7 });
  assert.equal(clock.now(), 2);
});

test('waiting stands still until the end, and not at all for what has ended', () => {
  const clock = new SimulatedClock();
  const { ended } = clock.post('a', 4);
  clock.compute(1);
  clock.waitUntil(ended);
  assert.equal(clock.now(), 4);
  clock.compute(3);
  clock.waitUntil(ended);
  assert.equal(clock.now(), 7);
});
