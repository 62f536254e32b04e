// Groups that ranks release: by destroy, or because no code can reach them any more.
import assert from 'node:assert/strict';
import { setImmediate } from 'node:timers/promises';
import * as tf from '../../../src/core/tf';
import { VALUE_CODEC } from '../../../src/launch/control/sent-values';
import { initDeviceMesh } from '../../../src/wire/dist/device-mesh';
import { createDist } from '../../../src/wire/dist/facade';
import { initializeModelParallel } from '../../../src/wire/dist/model-parallel';
import type { ProcessGroup } from '../../../src/wire/dist/types';
import type { World } from '../../../src/wire/dist/world';
import type { RankContext } from './scenario';
import { expectValues, vector } from './values';

/** More rounds than the test's segment has room for. */
const NUM_ROUNDS = 12;

/** The sum over the group's ranks, once by this thread and once by the comm thread. */
function expectSums(group: ProcessGroup): void {
  const sum = group.ranks.reduce((total, rank) => total + rank, 0);
  for (const async of [false, true]) {
    const x = vector(5000, () => group.ranks[group.rank] ?? -1);
    group.allReduce(x, 'sum', { async }).wait();
    expectValues(x, () => sum, `${group.name}, async ${async}`);
    x.dispose();
  }
}

export function destroyedGroupsMakeRoom({ group, world, engine }: RankContext): void {
  const dist = createDist(world, engine, (message) => assert.fail(message), VALUE_CODEC);
  for (let round = 0; round < NUM_ROUNDS; round++) {
    const mesh = initDeviceMesh(group, [2, 2], ['dp', 'tp']);
    for (const axis of ['dp', 'tp']) expectSums(mesh.get(axis));
    // The ranks destroy the groups at different times; a late rank still finds its own.
    if (group.rank % 2 === 0) for (const axis of ['dp', 'tp']) dist.destroyProcessGroup(mesh.get(axis));
    group.barrier().wait();
    for (const axis of ['dp', 'tp']) dist.destroyProcessGroup(mesh.get(axis));
    group.barrier().wait();
  }
}

export function aGroupHasRoomUntilAllItsRanksLeft({ group }: RankContext): void {
  const first = group.subgroup([0, 1], 'first');
  if (group.rank === 0) first?.destroy();
  group.barrier().wait();
  // Rank 1 has not left: the next group of two ranks gets other memory.
  const second = group.subgroup([0, 1], 'second');
  if (second !== null) expectSums(second);
  first?.destroy();
  second?.destroy();
  group.barrier().wait();
  const third = group.subgroup([2, 3], 'third');
  if (third !== null) expectSums(third);
  third?.destroy();
}

export function destroyedGroupsRefuseCalls({ group, world, engine }: RankContext): void {
  const dist = createDist(world, engine, (message) => assert.fail(message), VALUE_CODEC);
  const pair = dist.newGroup([0, 1]);
  const own = dist.newGroup([1, 2, 3]);
  for (const made of [pair, own]) {
    dist.destroyProcessGroup(made);
    dist.destroyProcessGroup(made);
    if (made === null) continue;
    const x = tf.ones([2]);
    for (const async of [false, true])
      assert.throws(() => made.allReduce(x, 'sum', { async }), {
        code: 'CLOSED',
        message:
          /allReduce in group world\[.*\], which dist\.destroyProcessGroup has ended; make the group again/,
      });
  }
  assert.throws(() => dist.destroyProcessGroup(group), {
    code: 'CONFIG',
    message: /lives as long as the job/,
  });
  expectSums(group);
}

export async function groupsThatNoCodeReachesMakeRoom({ group }: RankContext): Promise<void> {
  for (let round = 0; round < NUM_ROUNDS; round++) {
    useOnce(group);
    // As between two cells.
    await setImmediate();
  }
}

export async function sweptGroupsMakeRoomLater({ group, world }: RankContext): Promise<void> {
  for (let round = 0; round < 3; round++) {
    useAroundSweep(group, world);
    await setImmediate();
  }
}

function useAroundSweep(group: ProcessGroup, world: World): void {
  const mesh = initDeviceMesh(group, [2, 2], ['dp', 'tp']);
  world.sweep();
  for (const axis of ['dp', 'tp']) expectSums(mesh.get(axis));
}

function useOnce(group: ProcessGroup): void {
  const parallel = initializeModelParallel(group, {
    tensorModelParallelSize: 2,
    pipelineModelParallelSize: 2,
  });
  expectSums(parallel.tp);
  expectSums(parallel.pp);
}

export async function aPostedCallKeepsItsGroup({ group }: RankContext): Promise<void> {
  for (let round = 0; round < NUM_ROUNDS; round++) {
    const x = vector(5000, () => group.rank);
    const pairs = [
      [0, 1],
      [2, 3],
    ].map((ranks) => group.subgroup(ranks, 'pair'));
    const work = pairs.find((pair) => pair !== null)?.allReduce(x, 'sum', { async: true });
    for (const pair of pairs) pair?.destroy();
    work?.wait();
    expectValues(x, () => (group.rank < 2 ? 1 : 5), 'posted');
    x.dispose();
    await setImmediate();
  }
}
