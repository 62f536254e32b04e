// Collectives over a shaped wire: their results, and their reported times on the wire.
import assert from 'node:assert/strict';
import type { CollectiveEvent } from '../../../src/core/events';
import { now } from '../../../src/core/now';
import { linkOf, transferSeconds } from '../../../src/wire/transport/link';
import type { RankContext } from './scenario';
import { expectValues, vector } from './values';

/** What the tests give the ranks. */
export const SHAPED = { gbit: 0.1, latencyUs: 500 } as const;
const LINK = linkOf(SHAPED);
/** Clocks advance in steps; a transfer is never shorter by more than this. */
const TICK = 1e-6;

/** The event's time is at least the model's. */
function expectCarried(event: CollectiveEvent | undefined, steps: number, bytes: number): void {
  assert.ok(event !== undefined);
  const model = transferSeconds(LINK, { steps, bytes });
  const { started, ended, op } = event;
  assert.ok(ended - started >= model - TICK, `${op} took ${ended - started} s, the model says ${model} s`);
}

export function blockingCollectivesTakeTheirTimeOnTheWire({ group, events }: RankContext): void {
  const { rank, size } = group;
  const n = 1200 * size;
  const others = size - 1;
  const x = vector(n, () => rank + 1);
  group.allReduce(x).wait();
  expectValues(x, () => (size * (size + 1)) / 2, 'sum');
  expectCarried(events.at(-1), 2 * others, (2 * others * n * 4) / size);
  group.allReduce(x, 'max', { wireDType: 'bfloat16' }).wait();
  expectCarried(events.at(-1), 2 * others, (2 * others * n * 2) / size);
  group.reduceScatter(x).wait().dispose();
  expectCarried(events.at(-1), others, (others * n * 4) / size);
  group.allGather(x).wait().dispose();
  expectCarried(events.at(-1), others, others * n * 4);
  group.allToAll(x).wait().dispose();
  expectCarried(events.at(-1), others, (others * n * 4) / size);
  group.broadcast(x, 0).wait();
  expectCarried(events.at(-1), others, n * 4);
  if (rank === 0) group.send(x, 1).wait();
  if (rank === 1) group.recv(x, 0).wait();
  if (rank < 2) expectCarried(events.at(-1), 1, n * 4);
  group.barrier().wait();
  expectCarried(events.at(-1), 2 * others, 0);
}

/** Three posts at once: the second begins when the first ends, and the wire never carries two at a time. */
export function postedCollectivesQueueOnOneWire({ group, events }: RankContext): void {
  const { rank, size } = group;
  const pair = group.subgroup([0, 1], 'pair');
  group.barrier().wait();
  events.length = 0;
  const works = [group, pair, group].flatMap((among, i) =>
    among === null
      ? []
      : [
          among.allReduce(
            vector(2400, () => i + rank),
            'sum',
            { async: true },
          ),
        ],
  );
  const blocking = vector(2400, () => rank);
  group.allReduce(blocking).wait();
  for (const work of works) work.wait();
  expectValues(blocking, () => (size * (size - 1)) / 2, 'the blocking one');
  const carried = [...events].filter(({ ranks }) => ranks.length > 1).sort((a, b) => a.started - b.started);
  for (const event of carried) {
    const ranks = event.ranks.length;
    expectCarried(event, 2 * (ranks - 1), (2 * (ranks - 1) * 9600) / ranks);
  }
  carried.slice(1).forEach((event, i) => {
    const before = carried[i];
    assert.ok(before !== undefined);
    const { started, ranks } = before;
    const model = transferSeconds(LINK, {
      steps: 2 * (ranks.length - 1),
      bytes: (2 * (ranks.length - 1) * 9600) / ranks.length,
    });
    assert.ok(
      event.started >= started + model - TICK,
      'a transfer begins before the one ahead of it has ended',
    );
  });
}

/** The time begins when the last rank arrives, wherever the others wait. */
export function theTransferBeginsWhenAllHaveArrived({ group, events }: RankContext): unknown {
  if (group.rank === 0) {
    const until = now() + 0.03;
    while (now() < until);
  }
  const came = now();
  group.allReduce(vector(10, () => 1)).wait();
  return { came, started: events[0]?.started };
}

/** 400 MB at 0.1 Gbit/s would take half a minute. */
export function aTransferThatTakesLong({ group }: RankContext): void {
  group
    .broadcast(
      vector(1e6, () => 1),
      0,
    )
    .wait();
  for (let i = 0; i < 99; i++)
    group
      .broadcast(
        vector(1e6, () => 1),
        0,
      )
      .wait();
}

export function aPostedTransferThatTakesLong({ group }: RankContext): void {
  const x = vector(1e6, () => 1);
  const works = Array.from({ length: 99 }, () => group.broadcast(x, 0, { async: true }));
  for (const work of works) work.wait();
}

export function nothingIsLeftOfIt({ group, events }: RankContext): void {
  const from = now();
  group.allReduce(vector(10, () => 1)).wait();
  const started = events[0]?.started ?? Number.POSITIVE_INFINITY;
  assert.ok(started < from + 5, 'a transfer that was cut off does not keep the link busy');
}
