import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CALIBRATION } from '../../src/planner/calibration';
import { BUS_FACTOR, bandwidthOf, collectiveSeconds, groupPlaceOf } from '../../src/planner/cost/collective';
import { hardwareOf } from '../../src/planner/hardware';
import { busBandwidth } from '../../src/wire/dist/bench-collectives';

const A100 = hardwareOf('A100-80G');

test("bus bandwidth over algorithm bandwidth equals NCCL's: 2(n-1)/n, (n-1)/n, and 1 for a broadcast", () => {
  // Source: NCCL tests, doc/PERFORMANCE.md.
  for (const n of [2, 4, 8, 64, 1024]) {
    assert.equal(BUS_FACTOR.allReduce(n), (2 * (n - 1)) / n);
    assert.equal(busBandwidth('allReduce', 1, 1, n), BUS_FACTOR.allReduce(n));
    for (const op of ['allGather', 'reduceScatter', 'allToAll'] as const) {
      assert.equal(BUS_FACTOR[op](n), (n - 1) / n);
    }
    for (const op of ['broadcast', 'reduce', 'send'] as const) assert.equal(BUS_FACTOR[op](), 1);
  }
});

test("a large collective gets the bandwidth of the links in a node, or of the members' network cards", () => {
  const bytes = 64e9;
  const busGBps = (size: number, stride: number): number => {
    const place = groupPlaceOf(size, stride, A100.gpusPerNode);
    return (
      (bytes * BUS_FACTOR.allReduce(size)) /
      collectiveSeconds('allReduce', bytes, place, A100, CALIBRATION) /
      1e9
    );
  };
  const near = (a: number, b: number): boolean => Math.abs(a / b - 1) < 0.01;
  assert.ok(near(busGBps(8, 1), 300 * CALIBRATION.linkEfficiency));
  assert.ok(near(busGBps(16, 1), 8 * 25 * CALIBRATION.nicEfficiency), 'eight cards a node');
  assert.ok(near(busGBps(16, 8), 25 * CALIBRATION.nicEfficiency), 'one member a node has one card');
});

test('a small collective takes its latency, which grows with the ring; one rank takes no time', () => {
  const seconds = (size: number): number =>
    collectiveSeconds('allGather', 8, groupPlaceOf(size, 1, 8), A100, CALIBRATION);
  assert.equal(seconds(1), 0);
  assert.ok(seconds(2) < seconds(8) && seconds(8) < seconds(64) && seconds(64) < seconds(1024));
  assert.ok(
    bandwidthOf(groupPlaceOf(4, 1, 8), A100, CALIBRATION) >
      bandwidthOf(groupPlaceOf(4, 8, 8), A100, CALIBRATION),
  );
});
