import assert from 'node:assert/strict';
import { join } from 'node:path';
import test from 'node:test';
import { SILENT } from '../../../src/core/events';
import type { Engine } from '../../../src/engine/backend/engine';
import { joinWorld } from '../../../src/wire/dist/world';
import { probeSharedMemory } from '../../../src/wire/transport/native';
import { RankProcesses } from './rank-processes';

const FILE = join(__dirname, 'world.scenarios.js');
const ROOTS = join(__dirname, 'root.scenarios.js');
const probe = probeSharedMemory();
const plane = probe.ok ? 'shared-memory' : 'zeromq';

test(`four ranks over ${plane}`, { timeout: 60_000 }, async (t) => {
  const ranks = await RankProcesses.start(plane, 4);
  const valuesOf = async (name: string, file = FILE): Promise<unknown[]> => {
    const outcomes = await ranks.run(file, name);
    return outcomes.map((outcome, rank) => {
      if (outcome === undefined) return assert.fail(`rank ${rank} died`);
      return 'error' in outcome ? assert.fail(`rank ${rank}: ${outcome.error.message}`) : outcome.value;
    });
  };
  try {
    // First, because no rank has a comm thread yet.
    await t.test('wait for a posted send while its thread starts', async () => {
      await valuesOf('aPostedSendIsNoMismatchWhileItsThreadStarts');
    });
    await t.test('count received bytes by the ring algorithm', async () => {
      await valuesOf('wireBytesFollowTheRing');
      // 10 elements over 4 ranks: parts of 2, 3, 2, 3; a rank receives its part 3 times, then the other parts.
      assert.deepEqual(await valuesOf('unevenPartsAreCountedAsTheyTravel'), [56, 64, 56, 64]);
    });
    await t.test('communicate along the axes of a mesh', async () => {
      await valuesOf('meshAxesAreGroups');
    });
    await t.test("use collectives by torch's names", async () => {
      await valuesOf('theFacadeSpeaksAsTorch');
    });
    await t.test('do nothing, with a warning, for a group without the rank', async () => {
      await valuesOf('aCallOnARankOutsideOfItsGroupDoesNothing');
    });
    await t.test("refuse a caller's mistake before it reaches others", async () => {
      await valuesOf('callersMistakesAreTypedAndHurtNobody');
    });
    await t.test('reduce, gather and scatter with a root', async () => {
      await valuesOf('collectivesWithARootSpeakAsTorch', ROOTS);
    });
    await t.test('say what a root must give', async () => {
      await valuesOf('aRootWithoutAListIsToldWhatToGive', ROOTS);
    });
    await t.test('exchange values of JavaScript', async () => {
      await valuesOf('valuesOfJavaScriptTravel', ROOTS);
    });
    await t.test('show no collective after its end', async () => {
      for (const value of await valuesOf('boardAfterwards'))
        assert.deepEqual(value, { state: 'idle', waits: false });
    });
    // Last, because the group cannot be used after a mismatch.
    await t.test('compare the names of barriers', async () => {
      await valuesOf('barriersOfDifferentNamesAreAMismatch', ROOTS);
    });
  } finally {
    await ranks.stop();
  }
});

const noSegment = probe.ok ? false : probe.reason;
test('a group that no longer fits into the segment is a typed error on all ranks', {
  skip: noSegment,
  timeout: 60_000,
}, async () => {
  const ranks = await RankProcesses.start('shared-memory', 2, { segmentBytes: 2 ** 28 });
  try {
    for (const outcome of await ranks.run(FILE, 'theSegmentRunsFull')) {
      assert.ok(outcome !== undefined && 'error' in outcome);
      assert.equal(outcome.error.code, 'TRANSPORT');
      assert.match(outcome.error.message, /segment of 268435456 bytes is full/);
    }
  } finally {
    await ranks.stop();
  }
});

test('ranks and worlds out of range are refused', async () => {
  // Refused before the engine is used.
  const engine = {} as Engine;
  const join = (rank: number, world: number) => joinWorld({ rank, world, engine, observer: SILENT });
  await assert.rejects(join(0, 0), { code: 'CONFIG', message: /1 to 64 ranks, not 0/ });
  await assert.rejects(join(0, 1000), { code: 'CONFIG' });
  await assert.rejects(join(4, 4), { code: 'CONFIG', message: /rank 4 is not in a world of 4/ });
  await assert.rejects(join(0, 2), { code: 'CONFIG', message: /needs a plane/ });
});
