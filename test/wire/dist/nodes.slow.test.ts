import assert from 'node:assert/strict';
import { join } from 'node:path';
import test from 'node:test';
import { linkOf } from '../../../src/wire/transport/link';
import { probeSharedMemory } from '../../../src/wire/transport/native';
import { BETWEEN, WITHIN } from './nodes.scenarios';
import { RankProcesses, valuesOf } from './rank-processes';
import type { TestPlane } from './scenario';

const FILE = join(__dirname, 'nodes.scenarios.js');

for (const plane of ['shared-memory', 'zeromq'] satisfies TestPlane[]) {
  const probe = probeSharedMemory();
  const skip = plane === 'shared-memory' && !probe.ok ? `no shared memory here: ${probe.reason}` : false;

  test(`over ${plane} two nodes of two ranks have a slow link between them and a fast one within`, {
    skip,
    timeout: 60_000,
  }, async (t) => {
    const nodes = { ranksPerNode: 2, link: linkOf(WITHIN) };
    const ranks = await RankProcesses.start(plane, 4, { link: linkOf(BETWEEN), nodes });
    try {
      for (const name of [
        'aCallIsAsSlowAsTheLinksThatItUses',
        'pairsHaveTheirOwnLink',
        'callsQueueOnTheLinkBetweenNodes',
      ]) {
        await t.test(name, async () => void valuesOf(await ranks.run(FILE, name)));
      }
      await t.test(
        'a hierarchical all-reduce gives the same values, and two thirds of the bytes leave a node',
        async () => {
          const bytes = valuesOf(await ranks.run(FILE, 'aHierarchicalAllReduceEqualsTheFlatOne'));
          // Of n bytes, a flat ring of 4 ranks brings 3/2 n into a node, by one rank; two rings of 2 ranks bring n, by both ranks.
          const n = 19_200;
          const [gets, not] = [
            { flatBytes: (3 / 2) * n, levelBytes: n / 2 },
            { flatBytes: 0, levelBytes: n / 2 },
          ];
          assert.deepEqual(bytes, [gets, not, gets, not]);
        },
      );
      await t.test('each collective says which of its bytes came from the other node', async () => {
        const n = 19_200;
        assert.deepEqual(valuesOf(await ranks.run(FILE, 'eachCollectiveSaysWhatLeftTheNode')), [
          [`allGather ${3 * n}`, `allToAll ${n / 2}`, 'broadcast 0', `reduce ${n}`, 'barrier 0'],
          ['allGather 0', `allToAll ${n / 2}`, 'broadcast 0', 'reduce 0', 'barrier 0'],
          [`allGather ${3 * n}`, `allToAll ${n / 2}`, `broadcast ${n}`, `reduce ${n}`, 'barrier 0'],
          ['allGather 0', `allToAll ${n / 2}`, 'broadcast 0', 'reduce 0', 'barrier 0'],
        ]);
      });
    } finally {
      await ranks.stop();
    }
  });
}

test('a hierarchical collective without nodes says what to do', { timeout: 60_000 }, async () => {
  const ranks = await RankProcesses.start('zeromq', 2);
  try {
    valuesOf(await ranks.run(FILE, 'hierarchicalNeedsNodes'));
  } finally {
    await ranks.stop();
  }
});
