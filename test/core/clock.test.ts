import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SimulatedClock } from '../../src/core/clock';

test('simulated time advances by computation only', () => {
  const clock = new SimulatedClock();
  assert.equal(clock.now(), 0);
  clock.compute(2);
  clock.compute(3);
  assert.equal(clock.now(), 5);
});

test('posted work starts when its stream is free, whatever other streams do', () => {
  const clock = new SimulatedClock();
  clock.compute(1);
  assert.deepEqual(clock.post('a', 10), { started: 1, ended: 11 });
  clock.compute(1);
  assert.deepEqual(clock.post('a', 5), { started: 11, ended: 16 });
  assert.deepEqual(clock.post('b', 5), { started: 2, ended: 7 });
  assert.equal(clock.now(), 2);
});

test('waiting advances the time to the end of the work, and not at all if the work has ended', () => {
  const clock = new SimulatedClock();
  const { ended } = clock.post('a', 4);
  clock.compute(1);
  clock.waitUntil(ended);
  assert.equal(clock.now(), 4);
  clock.compute(3);
  clock.waitUntil(ended);
  assert.equal(clock.now(), 7);
});
