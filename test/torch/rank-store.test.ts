import assert from 'node:assert/strict';
import { test } from 'node:test';
import { RankStore, type StoreAnswer, type StoreRequest } from '../../src/torch/control';

const encoded = (text: string): string => Buffer.from(text).toString('base64');

/** Asks a store as a rank; returns the answers that have come so far. */
function ask(store: RankStore, request: Omit<StoreRequest, 'id'>, rank = 0): StoreAnswer[] {
  const answers: StoreAnswer[] = [];
  store.perform(rank, { id: 1, ...request }, (answer) => answers.push(answer));
  return answers;
}

test('a request for values is answered when all of them are set', () => {
  const store = new RankStore();
  const waiting = ask(store, { op: 'await', keys: ['a', 'b'] });
  ask(store, { op: 'set', keys: ['a'], values: [encoded('1')] }, 1);
  assert.deepEqual(waiting, []);
  assert.deepEqual(ask(store, { op: 'have', keys: ['a', 'b'] }), [false]);
  ask(store, { op: 'set', keys: ['b'], values: [encoded('2')] }, 1);
  assert.deepEqual(waiting, [[encoded('1'), encoded('2')]]);
  assert.deepEqual(ask(store, { op: 'have', keys: ['a', 'b'] }), [true]);
});

test('sums, appended and exchanged values are those of the stores of torch', () => {
  const store = new RankStore();
  assert.deepEqual(ask(store, { op: 'add', keys: ['n'], number: 3 }), [3]);
  assert.deepEqual(ask(store, { op: 'add', keys: ['n'], number: -1 }), [2]);
  assert.deepEqual(ask(store, { op: 'await', keys: ['n'] }), [[encoded('2')]]);
  ask(store, { op: 'append', keys: ['text'], values: [encoded('ab')] });
  ask(store, { op: 'append', keys: ['text'], values: [encoded('c')] });
  assert.deepEqual(ask(store, { op: 'await', keys: ['text'] }), [[encoded('abc')]]);
  const exchange = (expected: string, desired: string): StoreAnswer[] =>
    ask(store, { op: 'exchange', keys: ['x'], values: [encoded(expected), encoded(desired)] });
  assert.deepEqual(exchange('old', 'new'), [[encoded('old')]]);
  assert.deepEqual(exchange('', 'first'), [[encoded('first')]]);
  assert.deepEqual(exchange('other', 'second'), [[encoded('first')]]);
  assert.deepEqual(exchange('first', 'second'), [[encoded('second')]]);
});

test('values of an earlier epoch can be forgotten, and a rank that has ended waits for nothing', () => {
  const store = new RankStore();
  for (const key of ['shardlab 1 /a', 'shardlab 1 /b', 'shardlab 10 /a'])
    ask(store, { op: 'set', keys: [key], values: [encoded(key)] });
  ask(store, { op: 'forget', keys: ['shardlab 1 '] });
  assert.deepEqual(ask(store, { op: 'count', keys: [] }), [1]);
  assert.deepEqual(ask(store, { op: 'remove', keys: ['shardlab 10 /a'] }), [true]);
  const waiting = ask(store, { op: 'await', keys: ['late'] }, 3);
  store.left(3);
  ask(store, { op: 'set', keys: ['late'], values: [encoded('1')] });
  assert.deepEqual(waiting, []);
});
