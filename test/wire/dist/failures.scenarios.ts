// Ranks that disagree, or are missing.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createContext, Script } from 'node:vm';
import { now } from '../../../src/core/now';
import * as tf from '../../../src/core/tf';
import { PATIENCE_MS } from '../../../src/wire/transport/wait';
import type { RankContext } from './scenario';
import { expectValues, sumOver, vector } from './values';

/** Runs text as the notebook's cell `number`, from line `line` on. */
function inCell(number: number, line: number, text: string, values: object): unknown {
  const script = new Script(text, { filename: `In[${number}]`, lineOffset: line - 1 });
  return script.runInContext(createContext(values));
}

export function oneRankCallsABarrierInsteadOfAllReduce({ group }: RankContext): void {
  const x = vector(1000, () => 1);
  const options = { module: 'blocks.0.qkv' };
  if (group.rank === 0) inCell(3, 12, 'group.allReduce(x, "sum", options).wait()', { group, x, options });
  else inCell(3, 14, 'group.barrier().wait()', { group });
}

export function oneRankHasAnotherCount({ group }: RankContext): void {
  group.allReduce(vector(group.rank === 1 ? 999 : 1000, () => 1)).wait();
}

export function oneRankHasAnotherDtype({ group }: RankContext): void {
  group
    .broadcast(
      vector(10, () => 1, group.rank === 1 ? 'int32' : 'float32'),
      0,
    )
    .wait();
}

export function oneRankReducesOtherwise({ group }: RankContext): void {
  group
    .allReduce(
      vector(10, () => 1),
      group.rank === 1 ? 'max' : 'sum',
    )
    .wait();
}

export function oneRankRoundsOnTheWire({ group }: RankContext): void {
  group
    .allReduce(
      vector(10, () => 1),
      'sum',
      group.rank === 1 ? { wireDType: 'bfloat16' } : {},
    )
    .wait();
}

export function oneRankNamesAnotherSource({ group }: RankContext): void {
  group
    .broadcast(
      vector(10, () => 1),
      group.rank === 1 ? 1 : 0,
    )
    .wait();
}

export function oneRankGathersInsteadOfReducing({ group }: RankContext): void {
  const x = vector(10, () => 1);
  if (group.rank === 1) group.allGather(x).wait();
  else group.allReduce(x).wait();
}

export function oneRankExpectsOtherParts({ group }: RankContext): void {
  const lists = group.ranks.map((r) => {
    const length = group.rank === 1 && r === 0 ? 3 : 2;
    return [{ tensor: vector(length, () => 1), offset: 0, length }];
  });
  group
    .allToAllPieces(
      lists,
      group.ranks.map(() => [{ padding: 2 }]),
    )
    .wait();
}

export function asynchronousCallsDiffer({ group }: RankContext): void {
  group
    .allReduce(
      vector(10, () => 1),
      'sum',
      { async: true },
    )
    .wait();
  const work = group.allReduce(
    vector(group.rank === 1 ? 5 : 6, () => 1),
    'sum',
    { async: true },
  );
  work.wait();
}

export function aFailedAsynchronousCallFreesItsResult({ group, engine }: RankContext): void {
  const x = vector(group.size * (group.rank === 1 ? 2 : 3), () => 1);
  const before = engine.memory.numBuffers;
  const work = group.reduceScatter(x, 'sum', { async: true });
  try {
    work.wait();
  } finally {
    assert.equal(engine.memory.numBuffers, before, 'what was made for it is freed');
  }
}

export function oneRankPostsWhatTheOthersWaitFor({ group }: RankContext): void {
  group
    .allReduce(
      vector(10, () => 1),
      'sum',
      { async: group.rank === 1 },
    )
    .wait();
}

export function sendAndRecvDiffer({ group }: RankContext): void {
  if (group.rank === 0)
    group
      .send(
        vector(10, () => 1),
        1,
      )
      .wait();
  else if (group.rank === 1)
    group
      .recv(
        vector(11, () => 1),
        0,
      )
      .wait();
  else group.barrier().wait();
}

export function oneRankSendsWhatNobodyReceives({ group }: RankContext): void {
  if (group.rank === 0)
    group
      .send(
        vector(10, () => 1),
        1,
      )
      .wait();
  else group.allReduce(vector(10, () => 1)).wait();
}

export function oneRankMakesAnotherSubgroup({ group }: RankContext): void {
  group.subgroup(group.rank === 1 ? [0] : [0, 1]);
}

export function aFurtherCall({ group }: RankContext): void {
  group.barrier().wait();
}

export function everythingWorks({ group }: RankContext): void {
  const { rank, size } = group;
  for (const async of [false, true]) {
    const x = vector(5000, (i) => rank + i);
    group.allReduce(x, 'sum', { async }).wait();
    expectValues(x, (i) => sumOver(size, (r) => r + i), 'after a reset');
    x.dispose();
  }
  const y = vector(50, () => rank);
  if (rank === 0) group.send(y, 1).wait();
  if (rank === 1) group.recv(y, 0).wait();
  group.barrier().wait();
  y.dispose();
}

export function allReduceForEver({ group }: RankContext): void {
  const x = vector(1_000_000, () => 0);
  for (;;) group.allReduce(x).wait();
}

export function postForEver({ group }: RankContext): void {
  const x = vector(1_000_000, () => 0);
  for (;;) group.allReduce(x, 'sum', { async: true }).wait();
}

/** Ends at once on rank 0; the others wait for it. */
export function rankZeroDoesNotCome({ group }: RankContext): void {
  if (group.rank !== 0) group.allReduce(tf.zeros([10])).wait();
}

/**
 * Rank 1 is stopped while it waits in a broadcast and continues when rank 0 waits for it in the call after it: rank 1
 * first finds that rank 0 waits for it, and only then that the broadcast is over.
 */
export function aRankSleepsPastTheEndOfABroadcast({ group }: RankContext): void {
  const { rank } = group;
  const pids = tf.tensor1d([0, 1, 2].map((other) => (other === rank ? process.pid : 0)));
  group.allReduce(pids).wait();
  const [source = 0, sleeper = 0] = pids.dataSync();
  const x = vector(10, () => 1);
  // Rank 0 knows from rank 2 that all have left the all-reduce: from here on only rank 1 waits in the broadcast.
  if (rank === 2) group.send(x, 0).wait();
  if (rank === 0) {
    group.recv(x, 2).wait();
    for (let since = now(); now() < since + 0.01; ) if (stateOf(sleeper) !== 'S') since = now();
    process.kill(sleeper, 'SIGSTOP');
    while (stateOf(sleeper) !== 'T');
  }
  if (rank === 2) while (stateOf(sleeper) !== 'T');
  group.broadcast(x, 0).wait();
  if (rank === 0) group.send(x, 1).wait();
  if (rank === 2) {
    // Longer than a rank waits before it checks the others.
    const until = now() + (2 * PATIENCE_MS) / 1e3;
    while (stateOf(source) !== 'S' || now() < until);
    process.kill(sleeper, 'SIGCONT');
  }
  if (rank === 1) group.recv(x, 0).wait();
  group.barrier().wait();
}

/** The state of a process's main thread on Linux: R runs, S waits, T is stopped. */
const stateOf = (pid: number): string | undefined =>
  /^\d+ \(.*\) (\w)/.exec(readFileSync(`/proc/${pid}/task/${pid}/stat`, 'utf8'))?.[1];
