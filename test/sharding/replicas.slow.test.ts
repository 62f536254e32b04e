import assert from 'node:assert/strict';
import { test } from 'node:test';
import { describeDifference, differingReplicas, type ReplicaSum } from '../../src/sharding/replica-sums';
import { checkReplicas, namesFor } from './replicas-suite';

const sum = (name: string, value: number, part = '[4] 0+4'): ReplicaSum => ({ name, part, sum: value });
const named = (ranks: readonly number[]): string => ranks.join();

test('replicas differ if ranks report other checksums of the same elements', () => {
  const byRank = new Map([
    [0, [sum('a', 1), sum('b', 5), sum('c', 7, '[4] 0+2')]],
    [1, [sum('a', 1), sum('b', 6), sum('c', 8, '[4] 2+2')]],
    [3, [sum('b', 5), sum('a', 2)]],
  ]);
  const differing = differingReplicas(byRank);
  assert.deepEqual(differing, [
    { name: 'a', ranks: [[0, 1], [3]] },
    { name: 'b', ranks: [[0, 3], [1]] },
  ]);
  assert.equal(describeDifference(differing, named), 'a (and 1 more) has other values on 3 than on 0,1');
  assert.equal(describeDifference([], named), 'all replicas are equal');
});

test('models with equal names are compared in the order of their reports', () => {
  const twice = (first: number, second: number): ReplicaSum[] => [sum('w', first), sum('w', second)];
  assert.deepEqual(
    differingReplicas(
      new Map([
        [0, twice(1, 2)],
        [1, twice(1, 2)],
      ]),
    ),
    [],
  );
  const differing = differingReplicas(
    new Map([
      [0, twice(1, 2)],
      [1, twice(1, 3)],
    ]),
  );
  assert.deepEqual(differing, [{ name: 'w', ranks: [[0], [1]] }]);
});

test(
  'replicas of every layout over 2 ranks stay equal to the bit, and one changed bit is named',
  {
    timeout: 120_000,
  },
  () => checkReplicas(2, namesFor(2)),
);
