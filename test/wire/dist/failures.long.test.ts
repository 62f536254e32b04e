import assert from 'node:assert/strict';
import { once } from 'node:events';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import type { ErrorJson } from '../../../src/core/errors';
import type { AbortReason } from '../../../src/wire/transport/control-block';
import { probeSharedMemory } from '../../../src/wire/transport/native';
import { type Outcome, RankProcesses } from './rank-processes';
import type { TestPlane } from './scenario';

const FILE = join(__dirname, 'failures.scenarios.js');

/** Scenario → patterns that every rank's message must match. */
const MISMATCHES: Readonly<Record<string, readonly RegExp[]>> = {
  oneRankCallsABarrierInsteadOfAllReduce: [
    /rank 0 called allReduce of 1000 float32 \(sum, number 1, module blocks\.0\.qkv\) at In\[3\]:12/,
    /ranks 1, 2 called barrier \(number 1\) at In\[3\]:14/,
  ],
  oneRankHasAnotherCount: [/ranks 0, 2 called allReduce of 1000/, /rank 1 called allReduce of 999/],
  oneRankHasAnotherDtype: [/broadcast of 10 float32/, /rank 1 called broadcast of 10 int32/],
  oneRankReducesOtherwise: [/\(sum,/, /\(max,/],
  oneRankRoundsOnTheWire: [/bfloat16 on the wire/],
  oneRankNamesAnotherSource: [/source 0/, /source 1/],
  oneRankGathersInsteadOfReducing: [/rank 1 called allGather of 10/, /ranks 0, 2 called allReduce of 10/],
  oneRankExpectsOtherParts: [/rank 1 called allToAll of 7/, /ranks 0, 2 called allToAll of 6/],
  asynchronousCallsDiffer: [/asynchronous, sum, number/, /allReduce of 5/, /allReduce of 6/],
  aFailedAsynchronousCallFreesItsResult: [/reduceScatter of 9/, /reduceScatter of 6/],
  oneRankPostsWhatTheOthersWaitFor: [/asynchronous/],
  oneRankMakesAnotherSubgroup: [/subgroup .*making world\[0,1\]/, /subgroup .*making world\[0\]/],
};

function errorsOf(outcomes: readonly (Outcome | undefined)[]): ErrorJson[] {
  return outcomes.map((outcome, rank) => {
    if (outcome === undefined) throw new assert.AssertionError({ message: `rank ${rank} died` });
    if (!('error' in outcome)) throw new assert.AssertionError({ message: `rank ${rank} threw nothing` });
    return outcome.error;
  });
}

function expectNoErrors(outcomes: readonly (Outcome | undefined)[]): void {
  for (const outcome of outcomes) {
    assert.ok(outcome !== undefined);
    if ('error' in outcome) assert.fail(outcome.error.message);
  }
}

for (const plane of ['shared-memory', 'zeromq'] satisfies TestPlane[]) {
  const probe = probeSharedMemory();
  const skip = plane === 'shared-memory' && !probe.ok ? `no shared memory here: ${probe.reason}` : false;
  const options = { timeout: 60_000 };

  // One set of ranks has all tests of a plane; the last one kills a rank.
  describe(`ranks over ${plane}`, { skip }, () => {
    let ranks: RankProcesses;
    before(async () => {
      ranks = await RankProcesses.start(plane, 3);
    });
    after(() => ranks.stop());

    test('have an error on all ranks that shows both sides of a mismatch', options, async (t) => {
      for (const [name, patterns] of Object.entries(MISMATCHES)) {
        await t.test(name, async () => {
          for (const error of errorsOf(await ranks.run(FILE, name))) {
            assert.equal(error.code, 'COLLECTIVE_MISMATCH', error.message);
            assert.match(error.message, /until the job is reset/);
            for (const pattern of patterns) assert.match(error.message, pattern);
          }
          for (const error of errorsOf(await ranks.run(FILE, 'aFurtherCall'))) {
            assert.equal(error.code, 'COLLECTIVE_MISMATCH', error.message);
          }
          await ranks.reset();
          expectNoErrors(await ranks.run(FILE, 'everythingWorks'));
        });
      }
    });

    test('throw INTERRUPTED after an interrupt, and work again in the next epoch', options, async () => {
      for (const name of ['allReduceForEver', 'postForEver']) {
        const running = ranks.run(FILE, name);
        ranks.abort({ code: 'INTERRUPTED', text: 'you interrupted the cell' });
        for (const error of errorsOf(await running)) assert.equal(error.code, 'INTERRUPTED', error.message);
        for (const error of errorsOf(await ranks.run(FILE, 'aFurtherCall')))
          assert.equal(error.code, 'INTERRUPTED');
        await ranks.reset();
        expectNoErrors(await ranks.run(FILE, 'everythingWorks'));
      }
    });

    test("that wait for a missing rank throw the launcher's error", options, async () => {
      const running = ranks.run(FILE, 'rankZeroDoesNotCome');
      const reason: AbortReason = {
        code: 'COLLECTIVE_MISSING',
        rank: 0,
        text: 'rank 0 ended its cell without it',
      };
      ranks.abort(reason);
      const [, ...others] = await running;
      for (const error of errorsOf(others)) assert.equal(error.code, 'COLLECTIVE_MISSING');
      await ranks.reset();
    });

    test('throw RANK_DIED when a rank is killed in allReduceForEver', options, () =>
      killedIn('allReduceForEver', ranks),
    );
  });

  test(`a send over ${plane} that does not fit its recv is an error on both sides`, {
    ...options,
    skip,
  }, async () => {
    const ranks = await RankProcesses.start(plane, 2);
    try {
      for (const error of errorsOf(await ranks.run(FILE, 'sendAndRecvDiffer'))) {
        assert.equal(error.code, 'COLLECTIVE_MISMATCH');
        assert.match(error.message, /rank 0 called send of 10/);
        assert.match(error.message, /rank 1 called recv of 11/);
      }
      await ranks.reset();
      expectNoErrors(await ranks.run(FILE, 'everythingWorks'));
    } finally {
      await ranks.stop();
    }
  });

  test(`when a rank is killed in postForEver over ${plane}, the others throw RANK_DIED`, {
    ...options,
    skip,
  }, async () => {
    const ranks = await RankProcesses.start(plane, 3);
    try {
      await killedIn('postForEver', ranks);
    } finally {
      await ranks.stop();
    }
  });
}

async function killedIn(name: string, ranks: RankProcesses): Promise<void> {
  // Both threads of every rank are running.
  expectNoErrors(await ranks.run(FILE, 'everythingWorks'));
  const running = ranks.run(FILE, name);
  await Promise.race([running, new Promise((resolve) => setImmediate(resolve))]);
  const [, victim] = ranks.children;
  assert.ok(victim !== undefined);
  const died = once(victim, 'exit');
  victim.kill('SIGKILL');
  await died;
  ranks.abort({ code: 'RANK_DIED', rank: 1, text: 'rank 1 was ended by SIGKILL' });
  const [first, second, third] = await running;
  assert.equal(second, undefined);
  for (const error of errorsOf([first, third])) {
    assert.equal(error.code, 'RANK_DIED', error.message);
    assert.match(
      error.message,
      /gave up in allReduce number \d+ of group world: rank 1 was ended by SIGKILL/,
    );
    assert.equal(error.details?.rank, 1);
  }
}

test('a send that meets a collective is an error on all ranks, not a hang', { timeout: 60_000 }, async () => {
  const ranks = await RankProcesses.start('shared-memory', 3);
  try {
    for (const error of errorsOf(await ranks.run(FILE, 'oneRankSendsWhatNobodyReceives'))) {
      assert.equal(error.code, 'COLLECTIVE_MISMATCH');
    }
  } finally {
    await ranks.stop();
  }
});

test('a rank that sleeps past the end of a collective causes no mismatch with the next call of another rank', {
  skip: process.platform === 'linux' ? false : 'what a process waits for is read from /proc',
  timeout: 60_000,
}, async () => {
  const ranks = await RankProcesses.start('shared-memory', 3);
  try {
    expectNoErrors(await ranks.run(FILE, 'aRankSleepsPastTheEndOfABroadcast'));
  } finally {
    await ranks.stop();
  }
});
