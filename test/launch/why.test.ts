import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Situation } from '../../src/launch/control/situation';
import { findMissing } from '../../src/launch/missing';
import { explain } from '../../src/launch/why';

const WORLD = [0, 1, 2, 3];

function waiting(number: number, since: number, lastCalled = { world: number }): Situation {
  return {
    state: 'waiting',
    cell: 8,
    since,
    waiting: { op: 'barrier', group: 'world', ranks: WORLD, number, module: '', cell: 8, line: 1 },
    hasBackground: false,
    lastCalled,
  };
}

function doing(state: 'idle' | 'running', since = 0): Situation {
  return {
    state,
    cell: state === 'running' ? 8 : undefined,
    since,
    waiting: undefined,
    hasBackground: false,
    lastCalled: {},
  };
}

test('why says who waits in which collective, since when, for which rank, and what that rank does', () => {
  const situations = new Map([
    [0, waiting(41, 10)],
    [1, waiting(41, 9)],
    [2, doing('running')],
    [3, waiting(41, 11)],
  ]);
  const why = explain(situations, 4, {}, 12);
  assert.equal(
    String(why),
    'ranks 0, 1, 3 wait in barrier #41 (cell 8, line 1) for rank 2, which runs cell 8 (3.00 s so far)',
  );
  assert.deepEqual(why.waits[0]?.waitsFor, [2]);
});

test('why says that a missing rank is dead, silent, idle, or waits elsewhere', () => {
  const dead = new Map([[1, { code: null, signal: 'SIGKILL' }]]);
  const elsewhere: Situation = {
    ...waiting(7, 10),
    lastCalled: { world: 40, tp: 7 },
    waiting: { op: 'allReduce', group: 'tp', ranks: [3, 2], number: 7, module: 'blocks.0', cell: 8, line: 3 },
  };
  const text = String(
    explain(
      new Map([
        [0, waiting(41, 10)],
        [2, doing('idle')],
        [3, elsewhere],
      ]),
      4,
      { exits: dead },
      10,
    ),
  );
  assert.match(text, /rank 1, which has ended \(SIGKILL\)/);
  assert.match(text, /rank 2, which is idle/);
  assert.match(text, /rank 3, which waits in allReduce #7 \(group tp, module blocks\.0, cell 8, line 3\)/);
  assert.match(String(explain(new Map(), 1)), /rank 0 does not answer/);
});

test('why says that nobody waits, and what each rank does', () => {
  const text = String(
    explain(
      new Map([
        [0, doing('idle')],
        [1, doing('idle')],
      ]),
      2,
    ),
  );
  assert.equal(text, 'nobody waits: ranks 0-1 are idle');
});

test('a collective is missing if a rank is idle while others wait for it longer than the grace period', () => {
  const situations = new Map([
    [0, waiting(41, 10)],
    [1, doing('idle', 10)],
    [2, waiting(41, 10)],
    [3, waiting(41, 10)],
  ]);
  assert.equal(findMissing(situations, [1], 10.4), undefined);
  const missing = findMissing(situations, [1], 10.6);
  assert.deepEqual(missing?.idle, [1]);
  assert.match(
    missing?.text ?? '',
    /ranks 0, 2, 3 wait in barrier #41 .*but rank 1 ended without calling it/,
  );
});

test('a rank that has called the collective and continued is not missing', () => {
  const called: Situation = { ...doing('idle', 0), lastCalled: { world: 41 } };
  assert.equal(
    findMissing(
      new Map([
        [0, waiting(41, 0)],
        [1, called],
      ]),
      [1],
      10,
    ),
    undefined,
  );
});

/** A rank that waits in a send or recv with `peer`. */
function inPair(rank: number, op: 'send' | 'recv', peer: number, more: Partial<Situation> = {}): Situation {
  const ranks = [rank, peer];
  const waiting = { op, group: 'world', ranks, number: 1, module: '', cell: 8, line: rank + 1 } as const;
  return { ...doing('running'), state: 'waiting', waiting, numPosted: 0, ...more };
}

test('ranks that wait for each other in a circle are a deadlock, which why explains', () => {
  const both = new Map([
    [0, inPair(0, 'recv', 1)],
    [1, inPair(1, 'recv', 0)],
  ]);
  assert.equal(
    String(explain(both, 2, {}, 1)),
    'rank 0 waits in recv #1 (cell 8, line 1) for rank 1, which waits in recv #1 (cell 8, line 2) (1.00 s so far)\n' +
      'rank 1 waits in recv #1 (cell 8, line 2) for rank 0, which waits in recv #1 (cell 8, line 1) (1.00 s so far)\n' +
      'ranks 0-1 wait for each other. Let one of them send before it receives',
  );
  assert.equal(findMissing(both, [], 0.4), undefined, 'in the grace period');
  assert.deepEqual(findMissing(both, [], 1)?.idle, [0, 1]);
  const ring = new Map([0, 1, 2].map((rank) => [rank, inPair(rank, 'send', (rank + 1) % 3)]));
  assert.match(
    findMissing(ring, [], 1)?.text ?? '',
    /rank 0 in send .*rank 1 in send .*rank 2 in send .* for rank 0\./,
  );
});

test('a rank that has started other calls, whose peer is there, or that waits for a rank at work is in no deadlock', () => {
  const waits = (...situations: Situation[]): ReadonlyMap<number, Situation> => new Map(situations.entries());
  const none = [
    waits(inPair(0, 'recv', 1, { numPosted: 1 }), inPair(1, 'recv', 0)),
    waits(inPair(0, 'recv', 1, { numPosted: undefined }), inPair(1, 'recv', 0)),
    waits(inPair(0, 'recv', 1), inPair(1, 'send', 0)),
    waits(inPair(0, 'recv', 1, { lastCalled: { 'world send 0 1': 1 } }), inPair(1, 'recv', 0)),
    waits(inPair(0, 'recv', 1), inPair(1, 'recv', 2), doing('running')),
  ];
  for (const [i, situations] of none.entries())
    assert.equal(findMissing(situations, [], 9), undefined, `${i}`);
  assert.match(
    String(explain(waits(inPair(0, 'recv', 1), inPair(1, 'send', 0)), 2, {}, 1)),
    /^rank 0 waits in recv #1 \(cell 8, line 1\), whose other side rank 1 has called/,
  );
});

test('ranks that wait in different operations under one number wait for each other, if nobody compares their calls', () => {
  const lastCalled = { world: 5 };
  const waitIn = (op: 'allToAll' | 'barrier', line: number, isUnchecked?: boolean): Situation => ({
    ...waiting(5, 0, lastCalled),
    waiting: { op, group: 'world', ranks: [0, 1, 2], number: 5, module: '', cell: 8, line, isUnchecked },
  });
  const situations = (isUnchecked?: boolean) =>
    new Map([
      [0, waitIn('allToAll', 2, isUnchecked)],
      [1, waitIn('allToAll', 2, isUnchecked)],
      [2, waitIn('barrier', 3, isUnchecked)],
    ]);
  assert.equal(
    String(explain(situations(true), 3, {}, 1)),
    'ranks 0-1 wait in allToAll #5 (cell 8, line 2) for rank 2, which waits in barrier #5 (cell 8, line 3) (1.00 s so far)\n' +
      'rank 2 waits in barrier #5 (cell 8, line 3) for ranks 0-1, which wait in allToAll #5 (cell 8, line 2) (1.00 s so far)\n' +
      'ranks 0, 2 wait for each other. Let all ranks make the calls of all their groups in the same order',
  );
  // Ranks that compare their calls find the difference themselves.
  assert.match(String(explain(situations(), 3, {}, 1)), /^ranks 0-1 wait in allToAll #5 .* have called/);
});
