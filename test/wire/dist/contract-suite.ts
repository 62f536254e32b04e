import assert from 'node:assert/strict';
import { join } from 'node:path';
import test from 'node:test';
import { probeSharedMemory } from '../../../src/wire/transport/native';
import * as collectives from './contract.scenarios';
import { RankProcesses } from './rank-processes';
import type { TestPlane } from './scenario';
import * as work from './work-contract.scenarios';

/** The names of all scenarios, each with its file. */
const SCENARIOS = [
  ...Object.keys(collectives).map((name) => [name, 'contract.scenarios.js'] as const),
  ...Object.keys(work).map((name) => [name, 'work-contract.scenarios.js'] as const),
];

/** blockingAndAsync… → "blocking and async…" */
function sentence(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`).replace('all reduce', 'allReduce');
}

/** Runs every scenario of the contract on ranks over a plane; one set of processes runs all. */
export function contractOver(plane: TestPlane, world: number): void {
  const probe = probeSharedMemory();
  const skip = plane === 'shared-memory' && !probe.ok ? `no shared memory here: ${probe.reason}` : false;
  const title = world === 1 ? 'a world of one without a plane' : `${world} ranks over ${plane}`;
  test(`${title}: collectives follow the contract`, { skip }, async (t) => {
    const ranks = await RankProcesses.start(plane, world);
    try {
      for (const [name, file] of SCENARIOS) {
        await t.test(sentence(name), async () => {
          const outcomes = await ranks.run(join(__dirname, file), name);
          outcomes.forEach((outcome, rank) => {
            assert.ok(outcome !== undefined, `rank ${rank} died`);
            if ('error' in outcome) assert.fail(`rank ${rank}: ${outcome.error.message}`);
          });
        });
      }
    } finally {
      await ranks.stop();
    }
  });
}
