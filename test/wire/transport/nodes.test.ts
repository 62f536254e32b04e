import assert from 'node:assert/strict';
import { test } from 'node:test';
import { linkOf } from '../../../src/wire/transport/link';
import { Links, shareLinks } from '../../../src/wire/transport/links';
import { type LinkCosts, linkCosts } from '../../../src/wire/transport/nodes';
import { type CallSizes, ringCost } from '../../../src/wire/transport/ring-cost';

const FOUR = [100, 100, 100, 100];

/** The costs of a call of rank 1 of `ranks`, in nodes of two. */
function costs(
  op: CallSizes['op'],
  lists: Pick<CallSizes, 'inputs' | 'outputs'>,
  call: { ranks?: number[]; peer?: number } = {},
): LinkCosts {
  const { ranks = [0, 1, 2, 3], peer = -1 } = call;
  return linkCosts({ op, wireDType: 'float32', ...lists }, { ranks, rank: 1, peer, ranksPerNode: 2 });
}

test('a ring over nodes costs on both links, and a ring within a node only on its own', () => {
  const lists = { inputs: [400], outputs: [400] };
  const ring = { steps: 6, bytes: 2400 };
  assert.deepEqual(costs('allReduce', lists), { within: ring, between: { ...ring, part: 1 } });
  assert.deepEqual(costs('allReduce', lists, { ranks: [2, 3] }), { within: { steps: 2, bytes: 1600 } });
  // One rank of each node has half of its link; two rings between the same nodes never have more than all of it.
  assert.deepEqual(costs('allReduce', lists, { ranks: [0, 2] }), {
    between: { steps: 2, bytes: 1600, part: 0.5 },
  });
  // Two edges leave each node.
  assert.deepEqual(costs('allReduce', lists, { ranks: [0, 2, 1, 3] }), {
    between: { steps: 6, bytes: 4800, part: 1 },
  });
  // Rank 2 is alone in its node: its part of the link is half, and one edge leaves.
  assert.deepEqual(costs('allGather', { inputs: [100], outputs: [100, 100, 100] }, { ranks: [0, 1, 2] }), {
    within: { steps: 2, bytes: 800 },
    between: { steps: 2, bytes: 800, part: 0.5 },
  });
});

test('a chain ends at its last rank, and a root has the parts of all others on its links', () => {
  const lists = { inputs: [400], outputs: [400] };
  const chain = { steps: 3, bytes: 1600 };
  assert.deepEqual(costs('broadcast', lists, { peer: 0 }), { within: chain, between: { ...chain, part: 1 } });
  assert.deepEqual(costs('reduce', { inputs: [400], outputs: [] }, { peer: 3 }), {
    within: chain,
    between: { ...chain, part: 1 },
  });
  // The chain from rank 0 through 2 to 1 and 3 leaves node 0 twice.
  assert.deepEqual(costs('broadcast', lists, { peer: 0, ranks: [0, 2, 1, 3] }), {
    between: { steps: 3, bytes: 3200, part: 1 },
  });
  assert.deepEqual(costs('gather', { inputs: [100], outputs: [] }, { peer: 0 }), {
    within: { steps: 1, bytes: 400 },
    between: { steps: 2, bytes: 800, part: 1 },
  });
  assert.deepEqual(costs('scatter', { inputs: FOUR, outputs: [100] }, { peer: 0, ranks: [0, 2, 3] }), {
    between: { steps: 2, bytes: 800, part: 0.5 },
  });
});

test('an all-to-all and a pair use the links of their pairs', () => {
  assert.deepEqual(costs('allToAll', { inputs: FOUR, outputs: FOUR }), {
    within: { steps: 1, bytes: 400 },
    between: { steps: 2, bytes: 800, part: 0.5 },
  });
  assert.deepEqual(costs('allToAll', { inputs: [7, 9, 0, 5], outputs: [1, 9, 2, 2] }), {
    within: { steps: 1, bytes: 28 },
    between: { steps: 2, bytes: 20, part: 0.5 },
  });
  assert.deepEqual(costs('send', { inputs: [400], outputs: [] }, { peer: 0 }), {
    within: { steps: 1, bytes: 1600 },
  });
  assert.deepEqual(costs('recv', { inputs: [], outputs: [400] }, { peer: 2 }), {
    between: { steps: 1, bytes: 1600, part: 0.5 },
  });
});

test('without nodes, every call costs what its ring costs', () => {
  for (const op of ['allReduce', 'allToAll', 'gather', 'barrier', 'send'] as const) {
    const sizes = { op, wireDType: 'float32' as const, inputs: FOUR, outputs: FOUR };
    const place = { ranks: [0, 1, 2, 3], rank: 1, peer: 0, ranksPerNode: Number.POSITIVE_INFINITY };
    assert.deepEqual(linkCosts(sizes, place), { within: ringCost(sizes, 1, 4) });
  }
});

/** The header of a call, as far as links read it. */
const CALL = {
  op: 'allReduce',
  group: '',
  number: 1,
  epoch: 1,
  async: false,
  dtype: 'float32',
  wireDType: 'float32',
  reduction: 'sum',
  peer: -1,
  count: 0,
  value: 0,
  signature: 0,
  cause: 'user',
  module: '',
  site: { cell: undefined, line: undefined, text: '' },
} as const;

test('transfers queue on their own link only, whatever group they are of', () => {
  const one = linkOf({ gbit: 8, latencyUs: 0 });
  const shared = shareLinks({ link: one, nodes: { ranksPerNode: 2, link: one } });
  assert.ok(shared);
  const links = new Links(shared);
  const of = (ranks: number[]) => links.ofGroup({ name: '', ranks, rank: 0, world: 4 });
  const [node, row, world] = [of([0, 1]), of([0, 2]), of([0, 1, 2, 3])];
  assert.ok(node && row && world);
  const lists = { inputs: [1e9], outputs: [1e9] };
  const start = row.freeAt(CALL) + 1000;
  const first = row.carry(CALL, start, lists);
  assert.ok(first && Math.abs(first.lands - first.started - 8) < 1e-6); // 4 GB at half of 1 GB/s
  assert.ok(Math.abs(row.freeAt(CALL) - first.lands) < 1e-6);
  assert.ok(node.freeAt(CALL) < start, 'the link within the node is free');
  const beside = node.carry(CALL, start, lists);
  assert.ok(beside && Math.abs(beside.started - start) < 1e-6);
  const later = world.carry(CALL, start, lists);
  assert.ok(later && Math.abs(later.started - first.lands) < 1e-6);
  assert.ok(Math.abs(later.lands - first.lands - 6) < 1e-6); // 1.5 x 4 GB at 1 GB/s
});

test('a link that is not shaped carries nothing: within nodes by default, and everything without a link', () => {
  const shared = shareLinks({ link: linkOf('10GbE'), nodes: { ranksPerNode: 2, link: null } });
  assert.ok(shared);
  const links = new Links(shared);
  const of = (ranks: number[]) => links.ofGroup({ name: '', ranks, rank: 0, world: 4 });
  assert.equal(of([0, 1]), undefined);
  const pair = { ...CALL, op: 'send', peer: 1 } as const;
  assert.equal(of([0, 1, 2, 3])?.carry(pair, 0, { inputs: [10], outputs: [] }), undefined);
  assert.equal(of([0, 1, 2, 3])?.freeAt(pair), 0);
  assert.equal(shareLinks({ nodes: { ranksPerNode: 2, link: null } }), undefined);
  assert.equal(shareLinks({}), undefined);
});
