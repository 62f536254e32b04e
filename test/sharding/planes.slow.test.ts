import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { probeSharedMemory } from '../../src/wire/transport/native';
import { RankProcesses } from '../wire/dist/rank-processes';
import type { TestPlane } from '../wire/dist/scenario';
import * as scenarios from './planes-scenarios';

const FILE = join(__dirname, 'planes-scenarios.js');
const WORLD = 2;
const NAMES = Object.keys(scenarios);

async function outcomes(plane: TestPlane): Promise<Map<string, unknown[]>> {
  const ranks = await RankProcesses.start(plane, WORLD);
  const found = new Map<string, unknown[]>();
  try {
    for (const name of NAMES) {
      const results = (await ranks.run(FILE, name)).map((outcome, rank) => {
        assert.ok(outcome !== undefined, `rank ${rank} died`);
        if ('error' in outcome) assert.fail(`${name}, rank ${rank}: ${outcome.error.message}`);
        return outcome.value;
      });
      found.set(name, results);
    }
  } finally {
    await ranks.stop();
  }
  return found;
}

const probe = probeSharedMemory();
const skip = probe.ok ? false : `no shared memory here: ${probe.reason}`;

test('low precision, sparse gradients and routed rows are equal to the bit over both planes', {
  skip,
  timeout: 120_000,
}, async (t) => {
  const shared = await outcomes('shared-memory');
  const letters = await outcomes('zeromq');
  for (const name of NAMES) {
    await t.test(name, () => assert.deepEqual(letters.get(name), shared.get(name)));
  }
  await t.test('an overflow on one rank skips the step on all ranks, and the scale halves', () => {
    for (const steps of shared.get('overflowOnOneRank') ?? []) {
      assert.deepEqual(steps, [
        { stepped: false, numUpdates: 0, scale: 32768, grads: [] },
        { stepped: true, numUpdates: 1, scale: 65536, grads: [2, 2 / 32768, 3 / 32768] },
      ]);
    }
  });
});
