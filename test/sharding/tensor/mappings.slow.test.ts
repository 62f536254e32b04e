import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { launchRanks } from '../../support/launch-ranks';

const SCRIPT = join(__dirname, 'mappings-rank.js');

/** The collectives of forward, then of backward. */
const SENT = {
  copyToTensorParallelRegion: ['allReduce'],
  reduceFromTensorParallelRegion: ['allReduce'],
  scatterToTensorParallelRegion: ['allGather'],
  gatherFromTensorParallelRegion: ['allGather'],
  gatherFromSequenceParallelRegion: ['allGather', 'reduceScatter'],
  reduceScatterToSequenceParallelRegion: ['reduceScatter', 'allGather'],
  scatterToSequenceParallelRegion: ['allGather'],
};

test('mappings and their gradients are exact, also if a region runs again, and ledgers name the module', async () => {
  const args = { blas: 'none' };
  const byRank = await launchRanks<{ wrong: string[]; sent: unknown }>({ script: SCRIPT, world: 3, args });
  for (const { wrong, sent } of byRank) {
    assert.deepEqual(wrong, []);
    const named = Object.entries(SENT).map(([name, ops]) => [name, ops.map((op) => `${op} activation here`)]);
    assert.deepEqual(sent, Object.fromEntries(named));
  }
});
