import assert from 'node:assert/strict';
import { join } from 'node:path';
import test from 'node:test';
import { probeSharedMemory } from '../../../src/wire/transport/native';
import { RankProcesses } from './rank-processes';

const FILE = join(__dirname, 'groups.scenarios.js');
const probe = probeSharedMemory();
const skip = probe.ok ? false : `no shared memory here: ${probe.reason}`;

/** Room for the group of four ranks and for four groups of two. */
const SEGMENT_BYTES = 320 * 2 ** 20;

test('four ranks with a small segment', { skip, timeout: 60_000 }, async (t) => {
  const ranks = await RankProcesses.start('shared-memory', 4, { segmentBytes: SEGMENT_BYTES });
  const run = async (name: string): Promise<void> => {
    const outcomes = await ranks.run(FILE, name);
    const errors = outcomes.flatMap((outcome, rank) => {
      if (outcome === undefined) return [`rank ${rank} died`];
      return 'error' in outcome ? [`rank ${rank}: ${outcome.error.message}`] : [];
    });
    assert.deepEqual(errors, []);
  };
  try {
    await t.test('reuse the memory of groups that all their ranks have destroyed', () =>
      run('destroyedGroupsMakeRoom'),
    );
    await t.test('keep the memory of a group until its last rank has left', () =>
      run('aGroupHasRoomUntilAllItsRanksLeft'),
    );
    await t.test('reuse the memory of groups that no code can reach', () =>
      run('groupsThatNoCodeReachesMakeRoom'),
    );
    await t.test('reuse the memory of groups that a sweep has found in use before', () =>
      run('sweptGroupsMakeRoomLater'),
    );
    await t.test('keep the memory of a group in which a posted call runs', () =>
      run('aPostedCallKeepsItsGroup'),
    );
    await t.test('refuse calls in destroyed groups, and destroy no group of all ranks', () =>
      run('destroyedGroupsRefuseCalls'),
    );
  } finally {
    await ranks.stop();
  }
});
