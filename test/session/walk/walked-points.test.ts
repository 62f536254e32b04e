import assert from 'node:assert/strict';
import { test } from 'node:test';
import { MEMORY_CAUSES, type PointCollective, type StepPoint } from '../../../src/core/events';
import { WalkedPoints } from '../../../src/session/walk/walked-points';

function collective(name: 'allReduce' | 'send' | 'recv', number: number, peer?: number): StepPoint {
  const parts = { ranks: [0, 1], cause: 'user', wireDType: 'float32', count: 1, async: false } as const;
  const place = { cell: undefined, line: undefined, detail: undefined };
  const whole: PointCollective = {
    group: 'world',
    number,
    ...parts,
    ...place,
    ...(peer !== undefined && { peer }),
  };
  return { name, module: '', collective: whole };
}

function walked(...points: StepPoint[]): WalkedPoints {
  const own = new WalkedPoints('a walk', 2);
  const bytes = MEMORY_CAUSES.map(() => 1);
  for (const point of points) own.add(1, { point, bytes, place: null });
  return own;
}

const WAITING = {
  op: 'allReduce',
  group: 'world',
  ranks: [0, 1],
  number: 3,
  module: '',
  cell: 1,
  line: 1,
} as const;

test('a rank that stands before a collective has not called it, and has called all collectives with smaller numbers', () => {
  assert.equal(walked(collective('allReduce', 3)).hasCalled(1, WAITING, true), false);
  assert.equal(walked(collective('allReduce', 3)).hasCalled(1, WAITING, false), true);
  assert.equal(walked(collective('allReduce', 4)).hasCalled(1, WAITING, true), true);
  assert.equal(walked(collective('allReduce', 2)).hasCalled(1, WAITING, false), false);
  assert.equal(walked().hasCalled(1, WAITING, false), false);
});

test('a collective of another group does not count', () => {
  const other = { ...WAITING, group: 'tp[0,1]' };
  assert.equal(walked(collective('allReduce', 9)).hasCalled(1, other, false), false);
});

test('a send is met by the recv of the same number from this rank, and by no collective', () => {
  const sending = { ...WAITING, op: 'send', ranks: [0, 1], number: 2 } as const;
  assert.equal(walked(collective('allReduce', 9)).hasCalled(1, sending, false), false);
  assert.equal(walked(collective('recv', 2, 0)).hasCalled(1, sending, false), true);
  assert.equal(walked(collective('recv', 2, 3)).hasCalled(1, sending, false), false);
  assert.equal(walked(collective('recv', 2, 0)).hasCalled(1, sending, true), false);
});
