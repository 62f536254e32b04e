import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  LINKS,
  type LinkName,
  type LinkNumbers,
  linkOf,
  linkText,
  linkWarning,
  transferSeconds,
} from '../../../src/wire/transport/link';
import { LinkClock, shareLink } from '../../../src/wire/transport/link-clock';
import { ringCost } from '../../../src/wire/transport/ring-cost';

const FOUR = [100, 100, 100, 100];

test("steps and bytes follow the ring algorithm, at the wire's dtype", () => {
  const cost = (op: Parameters<typeof ringCost>[0]['op'], inputs: number[], outputs: number[]) =>
    ringCost({ op, wireDType: 'float32', inputs, outputs }, 1, 4);
  assert.deepEqual(cost('allReduce', [400], [400]), { steps: 6, bytes: 2400 });
  assert.deepEqual(cost('reduceScatter', FOUR, [100]), { steps: 3, bytes: 1200 });
  assert.deepEqual(cost('allGather', [100], FOUR), { steps: 3, bytes: 1200 });
  assert.deepEqual(cost('allToAll', FOUR, FOUR), { steps: 3, bytes: 1200 });
  assert.deepEqual(cost('allToAll', [9, 1, 0, 0], [1, 1, 1, 1]), { steps: 3, bytes: 36 });
  assert.deepEqual(cost('broadcast', [400], [400]), { steps: 3, bytes: 1600 });
  assert.deepEqual(cost('reduce', [400], []), { steps: 3, bytes: 1600 });
  assert.deepEqual(cost('gather', [100], []), { steps: 3, bytes: 1200 });
  assert.deepEqual(cost('gather', [100], FOUR), { steps: 3, bytes: 1200 });
  assert.deepEqual(cost('scatter', FOUR, [100]), { steps: 3, bytes: 1200 });
  assert.deepEqual(cost('send', [400], []), { steps: 1, bytes: 1600 });
  assert.deepEqual(cost('recv', [], [400]), { steps: 1, bytes: 1600 });
  assert.deepEqual(cost('barrier', [], []), { steps: 6, bytes: 0 });
  const low = { op: 'allReduce', wireDType: 'bfloat16', inputs: [400], outputs: [400] } as const;
  assert.deepEqual(ringCost(low, 0, 4), { steps: 6, bytes: 1200 });
});

test('time is latency x steps + bytes / bandwidth', () => {
  const link = linkOf({ gbit: 2, latencyUs: 50 });
  assert.deepEqual(link, { name: '', bytesPerSecond: 250e6, latencySeconds: 50e-6 });
  assert.equal(transferSeconds(link, { steps: 6, bytes: 2.5e6 }), 6 * 50e-6 + 0.01);
  assert.equal(linkText(link), 'link 2 Gbit/s, 50 µs');
  assert.equal(linkText(linkOf('10GbE')), 'link 10GbE: 10 Gbit/s, 20 µs');
});

test('a link that is faster than this host gives a warning', () => {
  assert.equal(linkWarning(linkOf('40GbE')), undefined);
  assert.match(linkWarning(linkOf('PCIe4')) ?? '', /PCIe4: 252 Gbit\/s.*at most about 44\.8 Gbit\/s/);
});

test('every known link has its numbers; the error of an unknown link names the nearest, and numbers are checked', () => {
  for (const name of Object.keys(LINKS)) {
    const { bytesPerSecond, latencySeconds } = linkOf(name as LinkName); // its own key
    assert.ok(bytesPerSecond >= 125e6 && latencySeconds > 0, name);
  }
  const loose = (link: unknown): unknown => linkOf(link as LinkNumbers); // as untyped code may give it
  assert.throws(() => loose('10gbe'), { code: 'CONFIG', message: /did you mean '10GbE'/ });
  assert.throws(() => loose('token ring'), { code: 'CONFIG', message: /choose one of 1GbE, 10GbE/ });
  for (const wrong of [
    { gbit: 0, latencyUs: 1 },
    { gbit: 1 },
    { gbit: 1, latencyUs: -1 },
    null,
    7,
    { gbit: 1, latencyUs: 1, mtu: 9 },
  ])
    assert.throws(() => loose(wrong), { code: 'CONFIG', message: /with gbit above 0/ });
});

test('transfers over one link queue: each begins when the one before has ended and all ranks are ready', () => {
  const clock = new LinkClock(shareLink(linkOf({ gbit: 8, latencyUs: 0 })));
  const start = clock.freeAt(1) + 10;
  const first = clock.carry(1, start, { steps: 0, bytes: 2e9 });
  assert.ok(Math.abs(first.started - start) < 1e-6 && Math.abs(first.lands - start - 2) < 1e-6);
  assert.ok(Math.abs(clock.freeAt(1) - first.lands) < 1e-6);
  const second = clock.carry(1, start + 1, { steps: 0, bytes: 1e9 });
  assert.ok(Math.abs(second.started - first.lands) < 1e-6);
  const late = clock.carry(1, start + 5, { steps: 0, bytes: 1e9 });
  assert.ok(Math.abs(late.started - start - 5) < 1e-6);
});

test('a reset of the job frees the link, which main thread and comm thread share', () => {
  const shared = shareLink(linkOf('1GbE'));
  const [main, comm] = [new LinkClock(shared), new LinkClock(shared)];
  const busy = main.carry(1, main.freeAt(1), { steps: 0, bytes: 1e12 });
  assert.ok(Math.abs(comm.freeAt(1) - busy.lands) < 1e-6);
  assert.ok(comm.freeAt(2) < busy.lands - 1000);
  const next = comm.carry(2, comm.freeAt(2), { steps: 0, bytes: 125e6 });
  assert.ok(Math.abs(main.freeAt(2) - next.lands) < 1e-6 && next.lands < busy.lands);
});
